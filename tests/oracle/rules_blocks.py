"""Tiny plans by hand, and what the specification says of each: rules of blocks, groups and ends.

As in `rules_calls`.
"""

from oracle.rules_calls import Rule

EXITS: Rule = (
    (
        "PLAN exit: the rank ends here; SEM R18: a rank that ended leaves the others stuck "
        "without a cycle; unordered: one order of those that `after` allows; SEM 7.2: "
        "POTENTIAL_DEADLOCK if some execution gets stuck and some does not"
    ),
    (
        ("ba x | ba ar", "all:D", "the call is never made"),
        ("ar x | ar", "all:S", "made before"),
        ("ar#b x ar#a | ar#b ar#a", "all:D", "what is behind an exit is not there"),
        ("ar#b {x ar#a} | ar#b ar#a", "all:P", "either may come first"),
        ("ar#b {ar#a x} | ar#b ar#a", "all:P", "the order of writing means nothing"),
        ("ar#b {[ar#a x]} | ar#b ar#a", "all:S", "a chain: the call first"),
        ("ar#b {[x ar#a]} | ar#b ar#a", "all:D", "a chain: the end first"),
        ("{x [ar#a ar#b]} | ar#a ar#b", "all:P", "before, between or behind"),
        ("ar#b {ar#a~q x%q} | ar#b ar#a", "all:S", "`after` makes it last"),
        ("ar#b {ar#a%q x~q} | ar#b ar#a", "all:D", "`after` makes it first"),
        ("ar#b {x {ar#a}} | ar#b ar#a", "all:P", "a block in the block"),
        ("?c(x / ) ar | ar", "all:P", "a branch that ends"),
        ("!c(x / ) ar | !c(x / ) ar", "all:S", "all end, or none"),
        ("!c(x / ) ar | !c( / x) ar", "all:D", "always one of the two"),
        ("!c(x / ) ar | ar", "all:P", "one ends, perhaps"),
        ("!c(ar x / ar) ar | !c(ar x / ar) ar", "all:S", "behind an equal call"),
        ("2*(ar#a{i}) x | 2*(ar#a{i})", "all:S", "behind a loop"),
        ("2*(ar#a{i} x) | 2*(ar#a{i})", "all:D", "in a loop: one iteration"),
        ("2*(?c(x / ) ar#a{i}) | 2*(ar#a{i})", "all:P", "in a branch in a loop"),
        ("s1 x | r0", "all:S", "a blocking send is delivered (SEM 3)"),
        ("{x s1#a} ar | r0#a ar", "all:D", "nobody makes the last call"),
        ("ba {x s1#a} | ba r0#a", "all:P", "sent, or not"),
        ("ba {x r1#a} | ba s0#a", "g:P n:P ms:P me:P mp:P", "received, or not"),
        ("ba#z <x / ar#a> | ba#z ar#a", "g:P ns:P ms:P", "a thread ends all of them"),
        ("ba <x / s1#a> | ba r0#a", "g:P ms:P", "at any moment"),
        ("ba <x / > ar | ba ar", "g:D ms:D", "and for good"),
        ("ba {x ar#a} | ba {x ar#a}", "all:P", "on both sides"),
        ("ba {x ar#a} | ba ar#a | ba ar#a", "all:P", "one of three"),
    ),
)

NAMES: Rule = (
    (
        "choices: equal names are one variable of a rank, or of all ranks where every choice "
        "of that name is uniform; a loop decides anew in every iteration; {i} in a name is "
        "replaced like in a label"
    ),
    (
        ("ba !c(ar / ) | ba !c(ar / )", "all:S", "one name"),
        ("ba !c(ar / ) | ba !d(ar / )", "all:P", "two names"),
        ("ba !c(ar / ) | ba !c( / ar)", "all:D", "one name, exchanged branches: never both"),
        ("ba ?c(ar / ) | ba ?c(ar / )", "all:P", "of each rank"),
        ("ba !c(ar / ) | ba ?c(ar / )", "all:P", "one of them is not uniform"),
        ("ba 2*(!c(ar / )) | ba 2*(!c(ar / ))", "all:S", "iteration by iteration"),
        ("ba 2*(!c(ar / )) | ba 2*(!d(ar / ))", "all:P", "two names in loops"),
        ("ba 2*(!c{i}(ar / )) | ba 2*(!c{i}(ar / ))", "all:S", "{i} on both sides"),
        ("ba 2*(!c{i}(ar / )) | ba 2*(!c(ar / ))", "all:P", "{i} on one side"),
        ("ba 2*(!c{i}(ar / )) | ba !c0(ar / ) !c1(ar / )", "all:S", "{i} is replaced"),
        ("ba 2*(!c{i}(ar / )) | ba !c1(ar / ) !c0(ar / )", "all:S", "as many calls"),
        (
            "!c(ba / ) 2*(!c{i}(ar#{i} / )) | !c(ba / ) !c1(ar#1 / ) !c0(ar#0 / )",
            "all:M",
            "other ones",
        ),
        ("ba 2*(!c(ar / )) | ba !c(ar / ) !c(ar / )", "all:P", "anew, against once"),
        ("ba !c(ar / ) !c(ar / ) | ba !c(ar / ) !c(ar / )", "all:S", "used twice"),
        ("!c(ar / ) !c( / ar) | ar", "all:S", "exactly one of the two"),
        ("?c(ar / ) ?c( / ar) | ar", "all:S", "so it is for one rank"),
        ("ba ?c(ar / ) ?d( / ar) | ba ar", "all:P", "none, one or two"),
        ("!c(!c(ba / ar) / ba) | ba", "all:S", "inside itself it is known"),
        ("!c(!d(ba / ar) / ba) | ba", "all:M", "another one is not"),
        ("!c(ar#a / ar#b) | !c(ar#a / ar#b)", "all:S", "both take the same data"),
        ("!c(ar#a / ar#b) | !d(ar#a / ar#b)", "all:M", "or not"),
        ("?c(ar#a / ar#b) | ?c(ar#a / ar#b)", "all:M", "or not, in spite of the name"),
        ("!c(ar / ag) | ar", "all:M", "another kind in one of them"),
        ("ba !c(ar / ) | ba !c(ar / ) | ba !d(ar / )", "all:P", "one of three"),
        ("A=01 B=2 :: ba !c(ar@A / ) | ba !c(ar@A / ) | ba ?c(ar@B / )", "all:P", "not uniform"),
        ("ba !c(s1 / ) | ba !c(r0 / )", "all:S", "a message"),
        ("ba !c(s1:4k / ) | ba !d(r0:4k / )", "all:P", "a message, perhaps"),
        ("ba 2*(2*(!c(ar / ))) | ba 2*(2*(!c(ar / )))", "all:S", "loops in loops"),
        ("ba 2*(2*(!c(ar / ))) | ba 4*(!c(ar / ))", "all:P", "other iterations"),
    ),
)

BATCHES: Rule = (
    (
        "MODELS and ADR 0030 on SEM R15 (inside a fused group the order matters, also across "
        "communicators): a batch is one launch for each communicator, in the order of first use; "
        "elsewhere a loop of single calls (SEM 2); nccl-lazy: the first use of a communicator "
        "blocks the host, in the order of the calls"
    ),
    (
        ("A=01 B=01 :: b[ar@A ar@B] | b[ar@A ar@B]", "g:S n:S mp:P", "one order; workers in any"),
        ("A=01 B=01 :: b[ar@A ar@B] | b[ar@B ar@A]", "n:P ns:D nl:D g1:S gd:D mp:P", "two orders"),
        ("A=01 B=01 :: b[ar@A ar@B]=h w(h) | b[ar@B ar@A]=h w(h)", "n:P ns:D nl:D", "asynchronous"),
        ("A=01 :: b[ar@A ar] | b[ar ar@A]", "n:P ns:D nl:D", "the world is a communicator, too"),
        (
            "A=01 B=01 :: init(A) init(B) b[ar@A ar@B] | init(A) init(B) b[ar@B ar@A]",
            "n:P ns:D",
            "made before: no host waits",
        ),
        ("A=01 B=01 :: b[ar@A ar@B] | ar@A ar@B", "n:S g:S", "single calls in that order"),
        ("A=01 B=01 :: b[ar@A ar@B] | ar@B ar@A", "n:P ns:D nl:D g1:S gd:D", "in the other"),
        ("A=01 B=02 :: b[ar@A ar@B] | b[ar@A] | b[ar@B]", "n:S", "no two ranks share both"),
        ("A=01 B=12 C=02 :: b[ar@A ar@C] | b[ar@B ar@A] | b[ar@C ar@B]", "n:P ns:D nl:D", "a ring"),
        ("A=01 B=12 C=02 :: b[ar@A ar@C] | b[ar@A ar@B] | b[ar@B ar@C]", "n:S", "in one order"),
        (
            "A=01 B=01 :: b[ar@A ar@B ar@A] | b[ar@A ar@A ar@B]",
            "n:S g1:S gd:D",
            "the order of first use",
        ),
        ("A=01 B=01 :: b[ar@A ar@B ar@A] | b[ar@B ar@A ar@A]", "n:P ns:D nl:D", "and of no other"),
        ("b[ar#a ar#b] | b[ar#a ar#b]", "n:S g:S mp:S", "one communicator"),
        ("b[ar#a ar#b] | b[ar#b ar#a]", "all:M", "its rounds are places"),
        ("b[ar#a] b[ar#b] | b[ar#a ar#b]", "n:S g:S", "one batch or two"),
        ("b[is1 ir1] | b[is0 ir0]", "all:S", "messages both ways"),
        ("b[is1 ir1] | b[ir0 is0]", "all:S", "in any order"),
        ("b[is1] b[ir1] | b[is0] b[ir0]", "g:D n:D ms:D me:P mp:P", "a batch each: one by one"),
        ("b[is1 is2] | b[ir0] | b[ir0]", "all:S", "to two peers"),
        ("b[is1 is2] | b[ir0 ir2] | b[is1 ir0]", "g:S n:S", "a triangle"),
        ("b[is1#a is1#b] | b[ir0#a ir0#b]", "all:S", "to one peer: in order"),
        ("b[is1#a is1#b] | b[ir0#b ir0#a]", "all:M", "to one peer: crossed"),
        ("A=01 :: b[is1 is1@A] | b[ir0@A ir0]", "g:S n:P ns:D nl:D", "messages of two groups"),
        ("b[ar ir1] | s0 ar", "gd:D g1:S", "the check of the call comes before the receive"),
        (
            "A=01 B=01 :: b[ar@A ar@B] b[ar@A ar@B] | b[ar@A ar@B] b[ar@B ar@A]",
            "n:P ns:D",
            "the second of two",
        ),
        ("A=01 B=01 :: b[ar@A ar@B] | b[ar@A] b[ar@B]", "n:S", "not together on one of them"),
        ("A=01 :: b[ar ar@A is1] | ar ar@A r0", "ns:D n1:P g:S", "a launch ends as a whole"),
        (
            "B=01 :: ar@B ar ar | ar=h b[ar@B ar] w(h)",
            "n1:P ne:P ns:D",
            "a launch waits for its own communicator only",
        ),
    ),
)

DROPS: Rule = (
    (
        "PLAN drop: the handle dies; SEM R19 and 3: on gloo a point-to-point handle that dies "
        "before its match breaks the pair; a collective's does not; NCCL and MPI do not mind"
    ),
    (
        ("is1=h drop(h) | r0", "g:P n:S me:S ms:S", "the receive may be posted too late"),
        ("is1=h drop(h) ar | r0 ar", "g:P n:S me:S ms:S", "with a call behind"),
        ("is1=h drop(h) s1 | r0 r0", "g:P n:S me:S ms:S", "later sends of the channel hang, too"),
        ("is1.1=h drop(h) s1 | r0", "g:S ms:S", "nobody takes it, another tag passes"),
        ("ir1=h drop(h) | s0", "g:S ms:S n:S", "the message is swallowed, the sender goes on"),
        ("ir1=h drop(h) r1 | s0 s0", "g:P ms:S n:S", "and every later one stalls"),
        ("ir1=h drop(h) r1.1 | s0 s0.1", "g:P ms:S n:S", "whatever its tag"),
        ("ir1=h drop(h) s1 | s0 r0", "g:P ms:S n:S", "in either direction"),
        ("ir1=h drop(h) ar | s0 ar", "g:P ms:S n:S", "collectives of that group, too"),
        ("A=01 :: ir1=h drop(h) ar@A | s0 ar@A", "g:S ms:S n1:S", "not of another group"),
        ("A=01 :: ir1@A=h drop(h) r1 | s0@A s0", "g:S ms:S n1:S", "nor its messages"),
        ("ir1=h drop(h) ar | ar", "g1:S gd:M ms:S", "no message meets it; it counts"),
        ("ir1=h drop(h) r2 | s0 | s0", "g:S ms:S n1:S", "another peer is well"),
        ("ar=h drop(h) | ar", "g:S n:S mp:S", "a collective's handle"),
        ("ar=h drop(h) | ar=h drop(h)", "all:S", "on both sides"),
        ("ar=h drop(h) ar | ar ar", "g:S n:S mp:S", "and the next call"),
        ("is1=h w(h) | r0", "all:S", "a handle that is waited for"),
        ("is1=h drop(h) | ir0=h w(h)", "g:P n:S ms:S", "against a nonblocking receive"),
        ("?c(is1=h drop(h) / s1) | r0", "g:P n:S ms:S", "in a branch"),
        ("is1#a=h drop(h) | r0#b", "all:M g:M", "other data is worse"),
        ("b[is1]=h drop(h) | r0", "g:P n1:S ms:S", "a batch's handle"),
        ("is1=h drop(h) ar | ar r0", "g1:P gd:M n:D ms:S", "when a handle dies is open (SEM 7.2)"),
    ),
)

DESTROYS: Rule = (
    (
        "PLAN destroy: the group ends on this rank; pending work is a finding (PG310), no "
        "outcome of its own"
    ),
    (
        ("A=01 :: ar@A destroy(A) | ar@A destroy(A)", "all:S", "on both sides"),
        ("A=01 :: ar@A destroy(A) | ar@A", "all:S", "on one side"),
        ("A=01 :: ar@A destroy(A) ar | ar@A ar", "all:S", "another group lives"),
        ("A=01 :: ar@A=h destroy(A) w(h) | ar@A", "g:S n:S mp:S", "pending: a finding"),
        ("A=01 :: ar@A destroy(A) | ar@A ar@A", "all:D", "the second lacks a member"),
        ("A=01 :: ar@A destroy(A) | destroy(A) ar", "all:D", "so does the first"),
        ("ar destroy(world) | ar destroy(world)", "all:S", "the world"),
        ("ar destroy(world) | ar", "all:S", "the world, on one side"),
        ("A=01 :: ar destroy(A) | ar", "all:S", "a group never used"),
        ("A=01 :: s1@A destroy(A) | r0@A destroy(A)", "all:S", "behind a message"),
        ("A=01 :: is1@A destroy(A) | r0@A", "n:S me:S ms:S", "behind one in flight"),
        (
            "A=01 :: {ar@A#a ar#b} destroy(A) | ar@A#a ar#b",
            "g:P",
            "behind a block, which is a fence",
        ),
        ("A=01 :: ar !c(ar@A / ) destroy(A) | ar !c(ar@A / )", "all:S", "behind a branch"),
        ("A=01 :: ar !c(destroy(A) / ) | ar", "all:S", "in a branch"),
        ("A=01 :: ar <ar@A / > destroy(A) | ar ar@A", "g:S ms:S", "behind threads"),
        ("A=01 :: 2*(ar@A) destroy(A) | ar@A ar@A", "all:S", "behind a loop"),
        ("A=01 :: ar@A#a destroy(A) | ar@A#b", "all:M", "labels differ all the same"),
        ("A=012 :: ar@A destroy(A) | ar@A | ar@A destroy(A)", "all:S", "two of three"),
        ("A=01 B=01 :: ar@A destroy(A) ar@B | ar@A ar@B destroy(B)", "all:S", "two groups"),
        ("A=01 :: destroy(A) ar | ar", "all:S", "before anything"),
    ),
)

CREATIONS: Rule = (
    (
        "PLAN new_group, MODELS: on gloo the members meet; nccl: nothing waits; nccl-eager: a "
        "collective over the world; MPI: the members meet; torch's MPI group: all ranks of "
        "the world enter the creation of which they are members (ProcessGroupMPI: a barrier "
        "on MPI_COMM_WORLD, then MPI_Comm_create, which takes disjoint groups); torch names "
        "groups by a counter of the process"
    ),
    (
        ("A=01 :: new(A) ar@A | new(A) ar@A", "all:S", "all ranks are members"),
        ("A=01 :: new(A) ar | ar", "g:D n:S ne:D me:D ms:D mp:D", "one of them does not"),
        ("A=01 :: new(A) ar@A | new(A) ar@A | ", "g:S n:S ne:D me:S ms:S mp:D", "members only"),
        ("A=01 :: new(A) ar@A | new(A) ar@A | new(A)", "g:S n:S me:S ms:S mp:D", "and one"),
        (
            "A=01 B=23 :: new(A) new(B) | new(A) new(B) | new(A) new(B) s3 | new(A) new(B) r2",
            "all:S",
            "the parts of the world: in MPI, one creation of all",
        ),
        (
            "A=01 B=23 :: new(A) ar@A | new(A) ar@A | new(B) ar@B | new(B) ar@B",
            "g:M n:M mp:S me:S ms:S",
            "parts by their members: torch gives both one name",
        ),
        (
            "A=01 B=12 :: new(A) new(B) ar | new(A) new(B) ar | new(A) new(B) ar",
            "g:S n:S mp:D",
            "groups that share a rank",
        ),
        ("A=012 :: new(A) ar@A | new(A) ar@A | new(A) ar@A", "all:S", "the whole world again"),
        (
            "A=012 B=01 :: new(A) new(B) ar | new(A) new(B) ar | new(A) new(B) ar",
            "mp:D g:S n:S",
            "a part",
        ),
        ("A=0 :: new(A) ar | new(A) ar", "g:S n:S me:S ms:S mp:D", "one rank waits for the others"),
        ("A=0 B=1 :: new(A) new(B) ar | new(A) new(B) ar", "all:S", "each rank alone"),
        ("A=01 B=01 :: new(A) new(B) ar@A | new(B) new(A) ar@A", "g:D n:D", "another number each"),
        (
            "A=01 B=01 :: new(A) new(B) ar@A ar@B | new(B) new(A) ar@B ar@A",
            "n:U",
            "crossed names",
        ),
        ("A=01 :: new(A) init(A) ar@A | new(A) init(A) ar@A", "all:S", "and its communicator"),
        ("A=01 :: new(A) init(A) ar | new(A) ar", "all:D", "which lacks a member"),
        ("A=01 :: ar new(A) ar@A | ar new(A) ar@A", "all:S", "behind a call"),
        (
            "A=01 :: ar new(A) ar@A | new(A) ar ar@A",
            "g:D me:D ms:D mp:D n1:S ne:S",
            "NCCL's hosts go on",
        ),
        ("A=01 :: ar !c(new(A) / ) | ar !c(new(A) / )", "all:S", "in a branch that all take"),
        ("A=01 :: ar !c(new(A) / ) | ar !d(new(A) / )", "g:P ne:P me:P ms:P mp:P n1:S", "or some"),
        ("A=01 :: s1 new(A) | new(A) r0", "g:D ms:D me:P mp:P n1:S ne:S", "with a message across"),
        (
            "A=12 :: new(A) ar | new(A) ar ar@A | new(A) ar ar@A",
            "g:S n:S ms:S mp:D",
            "no member waits",
        ),
        ("A=12 :: ar | new(A) ar ar@A | new(A) ar ar@A", "g:S n:S ne:D ms:S mp:D", "nor calls"),
    ),
)

NESTED: Rule = (
    (
        "PLAN threads: each keeps its order and blocks alone, the end joins all; unordered: a "
        "fence at both ends, one order of its items, a list is a chain; every-order: a block "
        "in a chain is a fence in that chain only"
    ),
    (
        ("A=01 B=01 :: <ar@A / ar@B> | <ar@A / ar@B>", "g:S ms:S", "two groups, two threads"),
        ("A=01 B=01 :: <ar@A / ar@B> | ar@B ar@A", "g:S ms:S", "against one program"),
        (
            "A=01 B=01 :: {ar@A#a ar@B#b} | <ar@A#a / ar@B#b>",
            "g:S ms:S",
            "a block, against threads",
        ),
        ("A=01 B=01 :: {ar@A#a ar@B#b} | {ar@A#a ar@B#b}", "g:P ms:P", "two blocks"),
        ("A=01 B=01 :: <{ar@A#a ar@B#b} / > | ar@A#a ar@B#b", "g:P ms:P", "a block in a thread"),
        ("A=01 B=01 :: <ar@A ar@B / > | ar@A ar@B", "g:S ms:S", "a thread is a chain"),
        ("A=01 B=01 :: {<ar@A#a / ar@B#b>} | ar@A#a ar@B#b", "g:S ms:S", "threads in a block"),
        ("A=01 B=01 :: {<ar@A#a / ar@B#b>} | ar@B#b ar@A#a", "g:S ms:S", "in either order"),
        ("{<s1#a / > r1#b} | r0#a s0#b", "g:P ms:P", "the block joins them before it goes on"),
        ("{<is1#a / > r1#b} | r0#a s0#b", "g:P ms:P", "the receive may come first"),
        ("<<s1#a / r1#b> / > | r0#a s0#b", "g:S ms:S", "threads in threads"),
        ("<<s1#a / r1#b> / > | s0#b r0#a", "g:S ms:S", "in either order"),
        ("<s1#a <r1#b / >/ > | s0#b r0#a", "g:D ms:D", "a chain with threads in it"),
        ("<s1#a / <r1#b / >> | s0#b r0#a", "g:S ms:S", "beside it"),
        ("<s1#a / r1#b> ar | s0#b r0#a ar", "g:S ms:S", "joined before the call"),
        ("<s1#a / ar> r1#b | s0#b r0#a ar", "g:D ms:D", "the receive is behind the join"),
        ("<s1#a / > <r1#b / > | s0#b r0#a", "g:D ms:D", "the second block begins behind the join"),
        ("<s1#a / > <r1#b / > | r0#a s0#b", "g:S ms:S", "block after block"),
        ("<<s1#a / > <r1#b / > / > | s0#b r0#a", "g:D ms:D", "likewise in a thread"),
        ("<s1#a / <r1#b / > > | s0#b r0#a", "g:S ms:S", "of two threads, one is free"),
        ("{<s1#a / > <r1#b / >} | s0#b r0#a", "g:P ms:P", "one block of two is joined first"),
        ("<2*(s1#a{i}) / r1#b> | s0#b 2*(r0#a{i})", "g:S ms:S", "a loop in a thread"),
        ("<!c(s1#a / ) / r1#b> | s0#b !c(r0#a / )", "g:S ms:S", "a branch in a thread"),
        ("<!c(s1:4k#a / ) / r1#b> | s0#b !d(r0:4k#a / )", "g:P ms:P", "two branches"),
        ("2*(<s1#a{i} / r1#b{i}>) | 2*(s0#b{i} r0#a{i})", "g:S ms:S", "threads in a loop"),
        ("?c(<s1#a / r1#b> / s1#a r1#b) | s0#b r0#a", "g:P ms:P", "threads in a branch"),
        ("<is1#a=h / r1#b> w(h) | s0#b r0#a", "g:S ms:S", "a handle out of a thread"),
        ("is1#a=h <w(h) / r1#b> | s0#b r0#a", "g:S ms:S", "a handle into a thread"),
        ("<is1#a=h w(h) / r1#b> | s0#b r0#a", "g:S ms:S", "a handle of a thread"),
        ("<ar#a / ar#b> | ar#a ar#b", "g:M n:M ms:M", "two threads race for a round"),
    ),
)

LOOSE: Rule = (
    (
        "PLAN labels: compared where both members have one; an action in a block without a label "
        "has an implicit one if all run one template, otherwise the round cannot be judged; SEM "
        "7.3 Theorem 3: every rank's order on a communicator has to be a chain"
    ),
    (
        ("{ar#a ar#b} | {ar#a ar#b}", "all:M", "each picks an order of its own"),
        ("{ar#a ar#b} | ar#a ar#b", "all:M", "one of them does"),
        ("{ar ar} | ar ar", "all:U", "nobody says what is what"),
        ("{ar#a ar#b} | ar ar", "all:U", "only those that move are labeled"),
        ("{ar ar} | ar#a ar#b", "all:U", "only those that stay are"),
        ("{ar#a ar} | ar#a ar#b", "all:M", "a may meet b"),
        ("{ar#a ar#a} | ar#a ar#a", "all:S", "one name for both: no matter which"),
        ("{ar} | ar", "all:S", "one call has no order"),
        ("{ar [ba]} | ar ba", "all:M", "one of the kinds is first"),
        ("{ar:1 ar:2} | ar:1 ar:2", "all:M", "one of the sizes is"),
        ("{[ar ar]} | ar ar", "all:S", "a chain has one order"),
        ("{ar~x ar%x} | ar ar", "all:S", "so has `after`"),
        ("A=01 :: {ar ar@A} | ar ar@A", "g:P ms:P", "two communicators: no rounds mixed"),
        ("A=01 :: {ar=g ar@A=h} w(g,h) | ar=g ar@A=h w(g,h)", "g1:S ms:S", "asynchronous"),
        ("{s1#a s1#b} | r0#a r0#b", "all:M", "messages of a channel"),
        ("{s1 s1} | r0 r0", "all:U", "without a label"),
        ("{s1#a s1#b} | r0 r0", "all:U", "labeled where they are sent"),
        ("s1 s1 | {r0#a r0#b}", "all:U", "or where they are received"),
        ("{is1.1 is1.2} | ir0.1=g ir0.2=h w(g,h)", "g:S me:S ms:S", "two tags are two channels"),
        ("{s1 s2} | r0 | r0", "all:S", "two peers, too"),
        ("{is1 ir1=h} w(h) | {is0 ir0=h} w(h)", "g:S ms:S", "and two directions"),
        ("<ar#a / ar#b> | ar ar", "g:S", "threads without labels on the other side"),
    ),
)

ENDS: Rule = (
    (
        "PLAN bad input: a plan in which nothing matches anything is UNKNOWN (PG910), worlds and "
        "groups of one rank exempt; exit: the rank ends here; an asynchronous call that is never "
        "waited for and never matched is no deadlock where a wait blocks the host (PG210)"
    ),
    (
        (" | ", "all:U", "no action"),
        ("x | x", "all:U", "both end"),
        ("x ar | x ar", "all:U", "what is behind an exit is not there"),
        ("x s1 | ir0=h", "g:U m:U", "a message that is never sent"),
        ("x s1 | x r0", "all:U", "nor received"),
        ("is1 | ", "g:U m:U", "a message that nobody takes, or waits for"),
        ("ir1 | ", "g:U m:U", "a receive that nobody needs"),
        ("s1 | ", "g:D n:D ms:D", "a blocking one is stuck"),
        ("s1^b | ", "me:U ms:U", "a buffered one is not"),
        ("?c( / ) | ", "all:U", "branches of nothing"),
        ("2*(?c( / )) | ", "all:U", "in a loop"),
        ("{} | ", "all:U", "a block of nothing"),
        ("< / > | ", "all:U", "threads of nothing"),
        ("!c(ar / ) | !c(ar / )", "all:S", "a match in some execution is something"),
        ("ar", "all:S", "a world of one rank"),
        ("", "all:S", "even of no action"),
        ("A=0 :: ar@A | ", "all:S", "a group of one rank"),
        ("A=01 :: new(A) | new(A)", "g:S ne:S m:S", "a creation that all make"),
        ("init(world) | init(world)", "all:S", "or a communicator"),
        ("ar x s1 | ar x s0", "all:S", "a match before the end"),
        ("sync | sync", "all:U", "nothing to wait for"),
    ),
)

COORDINATED: Rule = (
    (
        "PLAN fused buffer and fused-buffers: negotiated: a tensor is matched by its name and "
        "launched when all ranks have submitted it, never if one does not; rank0-broadcast: the "
        "layout is that of the first rank, and a rank that lacks a member of a bucket launches "
        "neither that bucket nor those behind it; a wait for what is never launched does not end"
    ),
    (
        ("F=negotiated,8 :: {m1 m2} w(m1,m2) | {m1 m2} w(m1,m2)", "g1:S ms:S", "in any order"),
        ("F=negotiated,8 :: m1 m2 w(m1,m2) | m2 m1 w(m1,m2)", "g1:S ms:S", "in opposite orders"),
        ("F=negotiated,4 :: {m1 m2} w(m1,m2) | {m2 m1} w(m2,m1)", "g1:S ms:S", "one by one"),
        ("F=negotiated,8 :: {m1 m2} w(m1,m2) | {m1} w(m1)", "g1:D ms:D", "one is not submitted"),
        ("F=negotiated,8 :: {m1 m2} w(m1) | {m1} w(m1)", "g1:S ms:S", "which nobody waits for"),
        ("F=negotiated,8 :: m1 w(m1) m2 w(m2) | m2 w(m2) m1 w(m1)", "g1:D ms:D", "waits cross"),
        ("F=negotiated,8 :: m1 w(m1) m2 w(m2) | m1 w(m1) m2 w(m2)", "g1:S ms:S", "waits agree"),
        ("F=negotiated,8 :: m1 w(m1) m2 w(m2) | {m1 m2} w(m1,m2)", "g1:S ms:S", "or come last"),
        ("F=negotiated,8 :: {m1 m2} w(m1,m2) ar | {m1 m2} w(m1,m2) ar", "g1:S ms:S", "then a call"),
        (
            "F=negotiated,8 :: ar m1 w(m1) | m1 w(m1) ar",
            "g:D ms:D",
            "a call on two sides of a wait",
        ),
        ("F=negotiated,8 :: m1:2 w(m1) | m1 w(m1)", "g1:M ms:M", "sizes"),
        (
            "F=rank0-broadcast,8 :: {m1 m2} w(m1,m2) | {m1 m2} w(m1,m2)",
            "g:S n1:S ns:S",
            "one bucket",
        ),
        ("F=rank0-broadcast,4 :: {m1 m2} w(m1,m2) | {m2 m1} w(m2,m1)", "g:S n1:S ns:S", "two"),
        ("F=rank0-broadcast,4 :: m1 m2 w(m1,m2) | m2 m1 w(m1,m2)", "g:S n1:S ns:S", "crosswise"),
        (
            "F=rank0-broadcast,4 :: {m1 m2} w(m1,m2) | {m1} w(m1)",
            "g:D n1:D",
            "the second lacks one",
        ),
        (
            "F=rank0-broadcast,4 :: {m1 m2} w(m1,m2) | {m2} w(m2)",
            "g:D",
            "the first bucket lacks it",
        ),
        (
            "F=rank0-broadcast,4 :: {m1} w(m1) | {m1 m2} w(m1)",
            "g:S n1:S",
            "the first rank lacks one",
        ),
        (
            "F=rank0-broadcast,4 :: {m1} w(m1) | {m1 m2} w(m1,m2)",
            "g:D",
            "which the other waits for",
        ),
        (
            "F=rank0-broadcast,4 :: m1 w(m1) m2 w(m2) | {m1 m2} w(m1,m2)",
            "g:S n1:S",
            "waits between",
        ),
        (
            "F=rank0-broadcast,4 :: m1 m2 w(m1,m2) | m2 w(m2) m1 w(m1)",
            "g:D",
            "waits against the order",
        ),
        ("F=rank0-broadcast,8 :: m1:2 w(m1) | m1 w(m1)", "g:M n1:M", "sizes"),
        ("F=rank0-broadcast,8 :: {m1 m2} w(m1,m2) ar | {m1 m2} w(m1,m2) ar", "g:S n1:S", "a call"),
        ("F=rank0-broadcast,8 :: m1 w(m1) ar#z | ar#z m1 w(m1)", "g:M", "a call in its round"),
    ),
)
