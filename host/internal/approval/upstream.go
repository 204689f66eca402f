package approval

import (
	"context"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/policy"
)

// upstream is the broker of the agent at the root, whose people answer for an agent.
type upstream struct {
	broker *Broker
	agent  string
}

// Under puts the questions of an agent to the people of the agent at the root as well: the first answer is used. What they allow for the
// session holds for all agents. It is called before the first question. Questions never go from the root to its agents, so that no locks
// are taken in the other order.
func (b *Broker) Under(root *Broker, agent string) { b.up = &upstream{root, agent} }

// attended reports whether a person is at the root.
func (u *upstream) attended(about event.QuestionKind) bool {
	if u == nil || !about.ForPerson() {
		return false
	}
	u.broker.mu.Lock()
	defer u.broker.mu.Unlock()
	return u.broker.mu.people.n > 0
}

// ask shows a question of b at the root, and reports whether it did.
func (u *upstream) ask(ctx context.Context, b *Broker, q event.QuestionAsked) bool {
	if u == nil || !q.About.ForPerson() {
		return false
	}
	u.broker.mu.Lock()
	u.broker.mu.relayed[q.ID] = b
	u.broker.mu.Unlock()
	q.Agent = u.agent
	if _, err := u.broker.pub.Publish(ctx, "", q); err != nil { // the root has ended: those at the agent's own thread answer
		u.forget(q.ID)
		return false
	}
	return true
}

// resolved tells the root that a question is resolved.
func (u *upstream) resolved(ctx context.Context, r event.QuestionResolved) {
	u.forget(r.ID)
	_, _ = u.broker.pub.Publish(context.WithoutCancel(ctx), "", r) // fails only if the root has ended, and with it who was asked
}

func (u *upstream) forget(id string) {
	u.broker.mu.Lock()
	defer u.broker.mu.Unlock()
	delete(u.broker.mu.relayed, id)
}

// allowed reports whether a key is allowed for the session of the root.
func (u *upstream) allowed(key string) bool {
	if u == nil {
		return false
	}
	u.broker.mu.Lock()
	defer u.broker.mu.Unlock()
	return u.broker.mu.allowed[key]
}

// permitted returns what the root's session permits.
func (u *upstream) permitted() policy.Permissions {
	if u == nil {
		return policy.Permissions{}
	}
	_, session := u.broker.Permitted("")
	return session
}

// allLeft waits until no one who can answer has been present for a time, here and at the root, and reports whether that happened before the
// end of ctx.
func (b *Broker) allLeft(ctx context.Context, p *presence, returns time.Duration, about event.QuestionKind) bool {
	for {
		if !b.left(ctx, p, returns) {
			return false
		}
		if b.up == nil || !about.ForPerson() {
			return true
		}
		if !b.up.broker.left(ctx, &b.up.broker.mu.people, 0) {
			return false
		}
		b.mu.Lock()
		alone := p.n == 0
		b.mu.Unlock()
		if alone {
			return true
		}
	}
}
