package pluginset

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The end of a command waits for the tools of a plugin that sends some, also if they come late, and not for those of one that is silent.
func TestToolsAreKeptAfterACommand(t *testing.T) {
	t.Parallel()
	const never = time.Hour
	for name, tc := range map[string]struct {
		first, again, command time.Duration // until tools come, and until the command ends
		want                  time.Duration // until the end of the wait
		kept                  bool
	}{
		"at once":                {0, 0, time.Minute, time.Minute, true},
		"after a short command":  {100 * time.Millisecond, 0, 0, 100 * time.Millisecond, true},
		"later":                  {0, time.Second, time.Minute, time.Minute + time.Second, true},
		"silent, long command":   {never, 0, time.Minute, time.Minute, false},
		"silent, short command":  {never, 0, 0, sendTime, false},
		"silent after a command": {0, never, time.Second, time.Second + keepTime, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, takes := time.Now(), make(chan time.Duration, 2)
				takes <- tc.first
				takes <- tc.again
				s := newSender(t.Context(), func(ctx context.Context) error {
					select {
					case <-time.After(<-takes):
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				})
				synctest.Wait()
				<-time.After(tc.command)
				synctest.Wait()
				err := s.keep(t.Context())
				if took := time.Since(began); took != tc.want || (err == nil) != tc.kept {
					t.Errorf("after %v: %v; want %v, kept %v", took, err, tc.want, tc.kept)
				}
				s.end()
			})
		})
	}
}
