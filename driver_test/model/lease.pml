/* The protocol of pglease as a model for the checker Spin. "make model" checks it, and the wrong ones that the options at the
   end of each rule's comment make of it.

   A Go programmer reads Promela like this: a proctype is a goroutine; atomic { } happens at once; do :: a -> b :: c -> d od
   is for { select { case a: b; case c: d } }, where a case can be chosen if its first statement can be executed, and a
   comparison can be if it is true. Spin tries every choice, and every order of the goroutines' steps.

   Time is relative, so that the states are few: left is for how many ticks the row is still unexpired, trust[i] for how many
   client i may still believe. In a tick the server's clock moves first and the clients' later: clocks differ by a tick at the
   most, which is what the safety margin is for. Between two steps of anybody any number of
   ticks may pass: that is a pause, a stop (SIGSTOP), a slow network.

   Left out: the deletion of rows, and tokens from the clock (a token is a counter here); withdrawals and minimum holds, which
   change only for how long nobody has the lease; poolers and standbys, which hybrid refuses; several waiters in line; and
   what the contract excludes (doc.go, Limits): clocks that jump, failovers that lose commits, operators. */

#define N 2      /* clients, each of which may use either backend for each attempt */
#define TTL 3    /* ticks */
#define NOTICE 1 /* within so many ticks a live holder hears of the end of its session */
#define GRANTS 3 /* then nobody asks any more: tokens have an end */

#ifdef LIVE /* the property at the end needs tokens without an end: here they are reused, so safety (-A) is not looked at */
#define next(t) (t % 6 + 1)
#define more true
#else
#define next(t) (t + 1)
#define more (token < GRANTS)
#endif

#ifdef NO_MARGIN /* the safety margin covers what the clocks differ by */
#define MARGIN 0
#else
#define MARGIN 1
#endif

mtype = { nothing, acquire, takeEarly, renew, release }; /* requests */
mtype = { idle, asking, noticing, holding };             /* states of a client */

/* The server: the row, the advisory lock, and the transactions that have passed CheckTx (their tokens, or 0). */
byte left, token;
bool evidence;     /* the row's holder has a session of this server run, or had */
byte lockedBy = N; /* nobody */
byte guard[N];
byte lastWrite;    /* token of the last guarded write */

/* The clients. */
mtype state[N] = idle;
bool hybrid[N];   /* mode of the present attempt or term */
byte mine[N];     /* token of the term */
byte trust[N];
byte age[N];      /* ticks since the request was sent: trust counts from there, not from its answer (TRUST_FROM_ANSWER) */
byte patience[N]; /* ticks until the bound of notice has passed for sure */
bool dead[N];

/* A request on its way, and another that its client does not wait for any more: the server may execute that one, too, at any
   time or never. */
mtype request[N] = nothing, answer[N] = nothing, late[N] = nothing;
byte lateToken[N];

/* CheckTx holds a lock on the row that every taker has to wait for (FENCE_WITHOUT_LOCK). */
#ifdef FENCE_WITHOUT_LOCK
#define locked false
#else
#define locked (guard[0] != 0 || guard[1] != 0)
#endif

inline grant(i) {
	token = next(token);
	left = TTL;
	evidence = hybrid[i];
	mine[i] = token;
	answer[i] = acquire
}

/* With its session go a client's advisory lock and its request. A live holder hears of it within the bound. */
inline endSession(i) {
	if
	:: state[i] == holding && hybrid[i] && trust[i] > NOTICE -> trust[i] = NOTICE
	:: else
	fi;
	if
	:: lockedBy == i -> lockedBy = N /* last: i may stand for lockedBy */
	:: else
	fi
}

/* A try. answer is acquire: granted; takeEarly: has the lock, and may have the row, too, when the bound of notice has passed;
   nothing: held. A row is taken if it has expired, judged under its lock. */
inline tryFor(i) {
	if
	:: hybrid[i] && lockedBy != N && lockedBy != i ->
		answer[i] = nothing;
		if
		:: left == 0 && !locked -> endSession(lockedBy) /* it hangs: evicted, but not before its row has expired */
		:: else
		fi
	:: else ->
		if
		:: left == 0 && !locked ->
			if
			:: hybrid[i] -> lockedBy = i
			:: else
			fi;
			grant(i)
		/* The lock is free and the row is not: its holder's session has ended. That is evidence if the row is a hybrid
		   holder's, of this server run: of nobody else can it be known that he hears of it (NO_EVIDENCE). */
#ifdef NO_EVIDENCE
		:: left > 0 && hybrid[i] -> lockedBy = i; answer[i] = takeEarly
#else
		:: left > 0 && hybrid[i] && evidence -> lockedBy = i; answer[i] = takeEarly
#endif
		:: else -> answer[i] = nothing
		fi
	fi
}

/* The second look, after the bound of notice, judges the row anew: a table-mode worker may have it by now. */
inline tryEarly(i) {
	if
#ifdef NO_EVIDENCE
	:: lockedBy == i && !locked -> grant(i)
#else
	:: lockedBy == i && !locked && (left == 0 || evidence) -> grant(i)
#endif
	:: else ->
		answer[i] = nothing;
		if
		:: lockedBy == i -> lockedBy = N
		:: else
		fi
	fi
}

/* Every write is scoped to its term (RELEASE_ANY), and an expired term is over. */
inline renewFor(i, t, current) {
	current = left > 0 && t == token && (!hybrid[i] || lockedBy == i);
	if
	:: current -> left = TTL
	:: else
	fi
}

inline releaseFor(t) {
#ifdef RELEASE_ANY
	left = 0
#else
	if
	:: t == token -> left = 0
	:: else
	fi
#endif
}

inline execute(i) {
	bool current;
	if
	:: request[i] == acquire -> tryFor(i)
	:: request[i] == takeEarly -> tryEarly(i)
	:: request[i] == renew ->
		renewFor(i, mine[i], current);
		answer[i] = (current -> renew : nothing)
	:: request[i] == release -> /* the row first, then the lock, in one statement */
		releaseFor(mine[i]);
		if
		:: lockedBy == i -> lockedBy = N
		:: else
		fi;
		answer[i] = release
	fi;
	request[i] = nothing
}

inline executeLate(i) {
	bool ignored;
	if
	:: late[i] == acquire && left == 0 && !locked && more -> token = next(token); left = TTL; evidence = false /* granted to nobody */
	:: late[i] == renew -> renewFor(i, lateToken[i], ignored)
	:: late[i] == release -> releaseFor(lateToken[i])
	:: true
	fi;
	late[i] = nothing;
	lateToken[i] = 0
}

active proctype Server() {
	do
	:: atomic { request[0] != nothing -> execute(0) }
	:: atomic { request[1] != nothing -> execute(1) }
	:: atomic { late[0] != nothing -> executeLate(0) }
	:: atomic { late[1] != nothing -> executeLate(1) }
#ifndef LIVE
	/* It crashes, and is there again: sessions and transactions are gone, the table is not. Nobody is told. */
	:: atomic { evidence || lockedBy != N || guard[0] + guard[1] != 0 -> evidence = false; lockedBy = N; guard[0] = 0; guard[1] = 0 }
	/* A session ends: a pooler, an operator, a network that says so. Not while its client has an answer that it has not read:
	   that would be a client paused for longer than the bound (doc.go, 2), or the same as an end right after it. */
	:: atomic { lockedBy != N -> if :: answer[lockedBy] == nothing -> endSession(lockedBy) :: else fi }
#endif
	od
}

inline clock(i) {
	if
	:: trust[i] > 0 -> trust[i]--
	:: else
	fi;
	if
	:: age[i] < TTL && (request[i] != nothing || answer[i] != nothing) -> age[i]++
	:: else
	fi;
	if
	:: patience[i] > 0 -> patience[i]--
	:: else
	fi
}

active proctype Time() {
	do
	:: atomic {
		if
		:: left > 0 -> left--
		:: else
		fi
	   };
	   atomic { clock(0); clock(1) }
	od
}

inline send(i, what) {
	request[i] = what;
	answer[i] = nothing;
	age[i] = 0
}

/* The client waits no longer. In table mode the request may be executed all the same; in hybrid its session is destroyed. */
inline giveUp(i) {
	if
	:: hybrid[i] -> endSession(i)
	:: !hybrid[i] && request[i] != nothing -> late[i] = request[i]; lateToken[i] = mine[i]
	:: else
	fi;
	request[i] = nothing
}

inline believe(i) {
#ifdef TRUST_FROM_ANSWER
	trust[i] = TTL - MARGIN;
#else
	trust[i] = (age[i] < TTL - MARGIN -> TTL - MARGIN - age[i] : 0);
#endif
	age[i] = 0;
	assert(trust[i] == 0 || trust[1 - i] == 0) /* at most one believer: only here does belief begin */
}

proctype Client(byte i) {
	do
	/* Attempts. */
	:: atomic {
		state[i] == idle && late[i] == nothing && request[i] == nothing && more && !dead[i] ->
		if
#ifndef TABLE /* only; to have fewer states */
		:: hybrid[i] = true
#endif
		:: hybrid[i] = false
		fi;
		send(i, acquire);
		state[i] = asking
	   }
	:: atomic {
		(state[i] == asking || state[i] == noticing) && request[i] == nothing && patience[i] == 0 && answer[i] != takeEarly ->
		if
		:: answer[i] == acquire -> state[i] = holding; believe(i)
		:: else -> state[i] = idle
		fi;
		answer[i] = nothing
	   }
	:: atomic {
		state[i] == asking && request[i] == nothing && answer[i] == takeEarly ->
		state[i] = noticing;
#ifdef NO_NOTICE /* the holder may not have heard yet */
		patience[i] = 0
#else
		patience[i] = NOTICE + 1 /* of the first tick a part may have passed already */
#endif
	   }
	:: atomic { state[i] == noticing && patience[i] == 0 && answer[i] == takeEarly && more -> send(i, takeEarly) }

	/* While it holds: heartbeats, their answers, the end. The trust deadline needs no step: trust[i] is 0 by then. */
	:: atomic { state[i] == holding && trust[i] > 0 && request[i] == nothing && answer[i] == nothing && late[i] == nothing -> send(i, renew) }
	:: atomic {
		state[i] == holding && answer[i] == renew && request[i] == nothing ->
		if
		:: trust[i] > 0 -> believe(i)
		:: else /* lost already, and never resurrected */
		fi;
		answer[i] = nothing
	   }
	:: atomic { state[i] == holding && trust[i] == 0 && request[i] == nothing -> answer[i] = nothing; state[i] = idle; giveUp(i) }
	:: atomic {
		state[i] == holding && request[i] == nothing && late[i] == nothing ->
		trust[i] = 0; /* first it stops to believe */
		answer[i] = nothing;
		send(i, release);
		state[i] = asking
	   }
#ifndef LIVE
	:: atomic { request[i] != nothing && late[i] == nothing -> giveUp(i); trust[i] = 0; state[i] = idle }
#endif
#if !defined(LIVE) && !defined(NO_WRITES) /* to have fewer states */
	/* A guarded write, by a process that may have been paused for ever so long, and does not look at its lease. */
	:: atomic {
		mine[i] != 0 && guard[i] == 0 && (state[i] == holding || state[i] == idle) && request[i] == nothing ->
#ifdef NO_FENCE
		guard[i] = mine[i]
#else
		if
		:: mine[i] == token && left > 0 -> guard[i] = mine[i]
		:: else
		fi
#endif
	   }
	:: atomic {
		guard[i] != 0 ->
		assert(guard[i] >= lastWrite); /* not from a term that another has followed */
		lastWrite = guard[i];
		guard[i] = 0
	   }
#endif
	/* It dies; another of its kind takes its place, unless the property is what becomes of the other. */
	:: atomic {
#ifdef LIVE
		i == 0 && !dead[0] -> dead[0] = true;
#else
		state[i] != idle || guard[i] != 0 ->
#endif
		giveUp(i);
		trust[i] = 0; mine[i] = 0; guard[i] = 0; patience[i] = 0; answer[i] = nothing; state[i] = idle
	   }
	od
}

init {
	atomic { run Client(0); run Client(1) }
}

#ifdef LIVE
/* Whoever goes on asking gets the lease when the other is dead. */
ltl served { [] (dead[0] -> <> (state[1] == holding)) }
#endif
