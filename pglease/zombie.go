package pglease

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// zombieAfter is how long a thing that should have ended may go on before it is reported.
const zombieAfter = 30 * time.Second

// A ZombieKind says what has not ended.
type ZombieKind string

// The kinds of zombies.
const (
	ZombieHeartbeat ZombieKind = "heartbeat" // a renewal that the driver has not returned from
	ZombieTask      ZombieKind = "task"      // the function of Do, Lead or Go, after its lease was lost
	ZombieCall      ZombieKind = "call"      // any other statement that the driver has not returned from
)

// A Zombie is something that should have ended and has not for 30 s. It is listed until it does.
type Zombie struct {
	Name  string // of a heartbeat that renews several leases at once, the first one
	Token int64  // 0 if no term had begun
	Kind  ZombieKind
	Since time.Time // when it should have ended, or, of a statement, when it was sent
}

// zombies keeps what should end soon, and lists what has not.
type zombies struct {
	mu   sync.Mutex
	list map[*Zombie]bool // true once it has been reported
}

// expectEnd reports z as a zombie if the returned function is not called within 30 s of z.Since.
func (c *Client) expectEnd(z Zombie) (ended func()) {
	entry := &z
	c.zombies.mu.Lock()
	if c.zombies.list == nil {
		c.zombies.list = make(map[*Zombie]bool)
	}
	c.zombies.list[entry] = false
	c.zombies.mu.Unlock()

	timer := time.AfterFunc(zombieAfter-time.Since(z.Since), func() {
		c.zombies.mu.Lock()
		_, there := c.zombies.list[entry]
		if there {
			c.zombies.list[entry] = true
		}
		c.zombies.mu.Unlock()
		if there {
			c.log.Warn("zombie: something that should have ended has not", zap.String("kind", string(z.Kind)),
				zap.String("name", z.Name), zap.Int64("token", z.Token), zap.Time("since", z.Since))
			c.observe(context.Background(), Event{Kind: EventZombie, Name: z.Name, Token: z.Token, Start: z.Since, Zombie: z.Kind})
		}
	})
	return func() {
		timer.Stop()
		c.zombies.mu.Lock()
		delete(c.zombies.list, entry)
		c.zombies.mu.Unlock()
	}
}

// Zombies lists what should have ended and has not for 30 s, by name: heartbeats and other statements that a driver does
// not return from, and tasks that go on although their lease was lost.
func (c *Client) Zombies() []Zombie {
	c.zombies.mu.Lock()
	defer c.zombies.mu.Unlock()
	var list []Zombie
	for z, reported := range c.zombies.list {
		if reported {
			list = append(list, *z)
		}
	}
	slices.SortFunc(list, func(a, b Zombie) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Kind, b.Kind))
	})
	return list
}
