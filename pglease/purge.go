package pglease

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// A client that holds leases deletes rows that nobody has used for long, now and then.
const (
	purgeEvery = time.Hour
	purgeAge   = 7 * 24 * time.Hour
)

// purgeSometimes deletes a batch of rows that have been expired for long.
func (c *Client) purgeSometimes() {
	c.mu.Lock()
	due := time.Since(c.purged) > purgeEvery && !c.closed
	if due {
		c.purged = time.Now()
	}
	c.mu.Unlock()
	if !due {
		return
	}
	c.inBackground(func(ctx context.Context) {
		n, err := call(ctx, c, "delete expired", Zombie{Kind: ZombieCall}, func(ctx context.Context) (int64, error) {
			return c.backend.DeleteExpired(ctx, purgeAge, deleteBatch)
		}, nil)
		c.log.Debug("old rows deleted", zap.Int64("rows", n), zap.Error(err))
	})
}
