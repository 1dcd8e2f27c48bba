package driver_test
import ("testing";"time";"log/slog";"os";"github.com/pglease/pglease-go/pglease")
func TestZZ(t *testing.T) {
	e := newEnv(t).table()
	db := e.hybridPool(t, pgxStdlib, e.dsn())
	given := conn(t, db)
	lg := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := hybridClient(t, given, pglease.WithTTL(30*time.Second), pglease.WithSlog(lg))
	l := mustTry(t, c, "n")
	_ = l
	b := time.Now()
	_, err := given.ExecContext(testContext(t), "BEGIN")
	t.Log(time.Since(b), err, l.Err())
}
