"""Tiny plans by hand, and what the specification says of each: rules of single calls.

Every rule has its sources: PLAN is the reference of the plan file, MODELS that of the execution
models, SEM the semantics of blocking and matching (R1 to R19 are its rules). A row is a plan in the
notation of `notation`, the outcome per model, and why.
"""

Row = tuple[str, str, str]
Rule = tuple[str, tuple[Row, ...]]

PARTS: Rule = (
    (
        "PLAN coalesced: the layouts of the lists must agree; labels: two members whose "
        "labels differ are out of round, compared where both have one; SEM R6: equal bytes in "
        "another order corrupt"
    ),
    (
        ("co(ar a b) | co(ar a b)", "all:S", "the same"),
        ("co(ar a b) | co(ar b a)", "all:M", "a permuted list adds a to b"),
        ("co(ar a b) | co(ar a c)", "all:M", "the second parts are other data"),
        ("co(ar a _) | co(ar a b)", "all:S", "where only one has a label nothing is compared"),
        ("co(ar _ b) | co(ar a _)", "all:S", "no part is labeled by both"),
        ("co(ar _ b) | co(ar a c)", "all:M", "the second parts are"),
        ("co(ar a b) | co(ar a)", "all:M", "lists of different length"),
        ("co(ar a b) | co(agt a b)", "all:M", "another kind"),
        ("co(ar a b)#x | co(ar a b)#x", "all:S", "the call and its parts agree"),
        ("co(ar a b)#x | co(ar a b)#y", "all:M", "the call has a label, too"),
        ("co(ar a b)#x | co(ar b a)#x", "all:M", "equal calls, permuted parts"),
        ("co(ar a b) | co(ar a b) | co(ar b a)", "all:M", "one of three"),
        ("co(ar _ _) | co(ar a b) | co(ar b a)", "all:M", "not the first of three"),
        ("co(ar _ _) | co(ar a b) | co(ar a b)", "all:S", "one of three says nothing"),
        ("co(ar a b)=h w(h) | co(ar a b)=h w(h)", "all:S", "asynchronous"),
        ("co(ar a b)=h w(h) | co(ar b a)=h w(h)", "all:M", "asynchronous, permuted"),
        ("co(ar a b) co(ar c d) | co(ar c d) co(ar a b)", "all:M", "two calls change places"),
        ("2*(co(ar a{i} b{i})) | 2*(co(ar a{i} b{i}))", "all:S", "equal iterations"),
        ("2*(co(ar a{i})) | co(ar a0) co(ar a1)", "all:S", "{i} is the iteration"),
        ("2*(co(ar a{i})) | co(ar a1) co(ar a0)", "all:M", "the other way round"),
        ("2*(co(ar a{i})) | 2*(co(ar a))", "all:M", "{i} against none"),
        ("A=01 :: co(ar a b)@A | co(ar b a)@A | ", "all:M", "in a group of its own"),
        ("co(ar a:2 b) | co(ar a b:2)", "all:M", "parts of other sizes"),
        ("co(agt a b) | co(agt b a)", "all:M", "gathered parts"),
        ("co(rst a b) | co(rst b a)", "all:M", "scattered parts"),
        ("{[co(ar a) co(ar b)]} | co(ar a) co(ar b)", "all:S", "a chain keeps its order"),
        (
            "{co(ar a) co(ar b)} | co(ar a) co(ar b)",
            "all:M",
            "the parts have labels",
        ),
        ("{co(ar a)#x co(ar b)#y} | co(ar a)#x co(ar b)#y", "all:M", "either may be first"),
    ),
)

SPLITS: Rule = (
    (
        "PLAN sizes: one number of elements for every member; size: what a rank gives to a "
        "gather, what it gets from a scatter; SEM 2: in_split[i->j] = out_split[j<-i]"
    ),
    (
        ("ga0:2+o2,3 | ga0:3", "all:S", "the root expects what each gives"),
        ("ga0:2+o2,3 | ga0:4", "all:M", "3 expected, 4 given"),
        ("ga0:2+o9,3 | ga0:3", "all:M", "the root gives itself 2"),
        ("ga0:2 | ga0:3", "all:M", "without splits all give what the root gives"),
        ("ga0:2+o2,2 | ga0:2", "all:S", "even parts, written out"),
        ("ga0:2+o2,3 | ga0:?", "all:S", "what is not said is not compared"),
        ("ga1:1 | ga1:2+o1,2,3 | ga1:3", "all:S", "the root in the middle"),
        ("ga1:1 | ga1:2+o3,2,1 | ga1:3", "all:M", "the wrong way round"),
        ("sc0:2+i2,3 | sc0:3", "all:S", "each gets what the root deals out"),
        ("sc0:2+i2,3 | sc0:2", "all:M", "3 dealt, 2 expected"),
        ("sc0:2 | sc0:3", "all:M", "without splits all get the same"),
        ("sc1:2 | sc1:3+i2,3", "all:S", "the other root"),
        ("ag:2+o2,3 | ag:3+o2,3", "all:S", "an uneven all_gather"),
        ("ag:2+o2,3 | ag:3+o3,2", "all:M", "its parts exchanged"),
        ("ag:2+o2,3 | ag:3", "all:M", "the second expects 3 of the first"),
        ("ag:2+o2,2 | ag:2", "all:S", "even, written out on one side"),
        ("ag:?+o2,3 | ag:?+o2,3", "all:S", "only the splits are said"),
        ("ag:?+o2,3 | ag:?+o9,3", "all:M", "what the first gives goes to both"),
        ("ag:2i+o2,3 | ag:3+o2,3", "all:M", "another element type"),
        ("rs:2+i2,3 | rs:3+i2,3", "all:S", "an uneven reduce_scatter"),
        ("rs:2+i2,3 | rs:3+i3,2", "all:M", "its parts exchanged"),
        ("rs:2+i2,3 | rs:2+i2,3", "all:M", "the second gets 3 and expects 2"),
        ("aa:3+i1,2+o1,4 | aa:9+i4,5+o2,5", "all:S", "what goes is what comes"),
        ("aa:3+i1,2+o1,4 | aa:9+i4,5+o3,5", "all:M", "2 sent, 3 expected"),
        ("aa:4 | aa:4+i2,2+o2,2", "all:S", "equal parts, written out on one side"),
        ("aa:4 | aa:4+i1,3+o1,3", "all:M", "2 expected, 1 sent"),
        ("aa:2+i0,2+o0,0 | aa:0+i0,0+o2,0", "all:S", "parts of nothing"),
        ("ar:2 ag:2+o2,3 | ar:2 ag:3+o2,3", "all:S", "behind another round"),
        ("ga0:2+o2,3#a | ga0:3#b", "all:M", "right sizes, other data"),
    ),
)

SIZELESS: Rule = (
    (
        "PLAN defaults: an absent size is unknown, nothing is compared; size rule of the "
        "models with buffers: what has no size may be as small as the buffer wants (MODELS "
        "mpi-eager)"
    ),
    (
        ("ar:? | ar:2", "all:S", "one side says nothing"),
        ("ar:? | ar:?", "all:S", "neither does"),
        ("ar:? | ar:1 | ar:2", "all:M", "two of three do, and differ"),
        ("ar:? | ar:1 | ar:1", "all:S", "two of three agree"),
        ("ar:?#a | ar:?#b", "all:M", "labels are compared all the same"),
        ("ar:? | ag:?", "all:M", "and kinds"),
        ("bc0:? | bc1:?", "all:M", "and roots"),
        ("s1:? | r0", "all:S", "a message that is taken"),
        ("s1 | r0:?", "all:S", "a receive of anything"),
        ("s1:?#a | r0#b", "all:M", "other data"),
        ("s1:? r1:? | s0:? r0:?", "g:D n:D ms:D me:P mp:P", "head to head: buffered, if small"),
        ("s1:? r1:4k | s0:4k r0:?", "g:D n:D ms:D me:P mp:P", "one of them may be"),
        ("s1:4k r1:4k | s0:4k r0:4k", "g:D n:D m:D", "none may"),
        ("s1:? r1:? | s0:1 r0:?", "g:D n:D ms:D me:P mp:P", "one is small anyway"),
        ("ar s1:? | ar", "g:D n:D ms:D me:P mp:P", "nobody takes it: it may be buffered"),
        ("ar s1:4k | ar", "g:D n:D m:D", "too large for that"),
        ("ar s1:? | ar r0", "all:S", "somebody takes it"),
        ("bc0:? s1 | r0 bc0:?", "g:D n:D ms:D me:P mp:P", "a small broadcast lets its root go"),
        ("bc0:4k s1 | r0 bc0:4k", "g:D n:D m:D", "a large one does not"),
        ("rd0:? r1 | s0 rd0:?", "g:D n:D ms:D me:P mp:P", "only a buffered message lets go"),
        ("co(ar _:? _:?) | co(ar _:1 _:2)", "all:S", "parts of unknown size"),
        ("co(ar _:? _:1) | co(ar _:1 _:2)", "all:M", "the second part differs"),
        ("co(ar _:?) | co(ar _:? _:?)", "all:M", "the lists differ in length"),
        ("is1:?=h r1 w(h) | is0:?=h r0 w(h)", "g:S n:D ms:S me:S mp:S", "posted by the host"),
    ),
)

MODES: Rule = (
    (
        "PLAN mode: how MPI sends; ready is treated as standard; SEM 3: Ssend of 4 bytes head "
        "to head hangs, Bsend of 4 MiB does not; SEM 6; torch's own MPI group has no modes, "
        "nor has any other model"
    ),
    (
        ("s1 r1 | s0 r0", "me:P ms:D mp:P g:D n:D", "standard: buffered, perhaps"),
        ("s1^s r1 | s0^s r0", "me:D ms:D mp:P g:D n:D", "synchronous: never"),
        ("s1^b r1 | s0^b r0", "me:S ms:S mp:P g:D n:D", "buffered: always"),
        ("s1^r r1 | s0^r r0", "me:P ms:D mp:P g:D n:D", "ready: as standard"),
        ("s1:4k r1:4k | s0:4k r0:4k", "me:D ms:D mp:D", "standard, large"),
        ("s1:4k^b r1:4k | s0:4k^b r0:4k", "me:S ms:S mp:D", "buffered, large"),
        ("s1^b r1 | s0 r0", "me:S ms:S", "one buffered end is enough"),
        ("s1^b r1:4k | s0:4k r0", "me:S ms:S", "however large the other"),
        ("s1^s r1 | s0 r0", "me:P ms:D", "the standard one may be buffered"),
        ("s1^s r1:4k | s0:4k r0", "me:D ms:D", "if it is not too large"),
        ("s1^s r1 | s0^b r0", "me:S ms:S", "the buffered one goes on"),
        ("s1^s | r0", "me:S ms:S", "synchronous, and taken"),
        ("ar s1^s | ar", "me:D ms:D", "nobody takes it"),
        ("ar s1^b | ar", "me:S ms:S", "nobody has to"),
        ("ar s1 | ar", "me:P ms:D", "nobody has to, if small"),
        ("is1^s=h w(h) r1 | is0^s=h w(h) r0", "me:D ms:D", "the wait of a synchronous send"),
        ("is1^b=h w(h) r1 | is0^b=h w(h) r0", "me:S ms:S", "of a buffered one"),
        ("is1^s=h r1 w(h) | is0^s=h r0 w(h)", "me:S ms:S", "waited for behind the receive"),
        ("s1^s r2 | s2^s r0 | s0^s r1", "me:D ms:D", "a ring"),
        ("s1^s r2 | s2^s r0 | s0^b r1", "me:S ms:S", "a ring with one buffered send"),
        ("s1.1^s s1.2 | r0.2 r0.1", "me:D ms:D", "tags crossed: the first waits"),
        ("s1.1^b s1.2 | r0.2 r0.1", "me:S ms:S", "tags crossed: the first is buffered"),
        ("s1.1 s1.2 | r0.2 r0.1", "me:P ms:D", "tags crossed: perhaps it is"),
        ("s1^b#a | r0#b", "me:M ms:M", "a mode changes no label"),
        ("s1:2^b | r0", "me:M ms:M", "nor a size"),
    ),
)

PROBES: Rule = (
    (
        "PLAN probe: as a receive, MPI only; a probe waits until a message is there that a "
        "receive with its arguments would take, and takes nothing; SEM 6: messages are served "
        "in posted order"
    ),
    (
        ("p1 r1 | s0", "me:S ms:S", "it looks, then takes"),
        ("ar p1 | ar", "me:D ms:D", "nothing is sent"),
        ("p1 r1 | is0=h w(h)", "me:S ms:S", "a nonblocking send is seen, too"),
        ("r1 p1 | s0", "me:D ms:D", "the message is gone"),
        ("r1 p1 | s0 s0", "me:P ms:D", "the second is seen, and left"),
        ("r1 p1 r1 | s0 s0", "me:S ms:S", "seen, and taken"),
        ("p1 p1 r1 | s0", "me:S ms:S", "it may be seen twice"),
        ("p* r1 | s0", "me:S ms:S", "any source"),
        ("p* r* | s0", "me:S ms:S", "any source for both"),
        ("p2 r1 r2 | s0 | s0", "me:S ms:S", "the other source"),
        ("p2 r1 | s0 | ", "me:D ms:D", "a source that sends nothing"),
        ("p1.1 r1 | s0", "me:D ms:D", "another tag"),
        ("p1.* r1.1 | s0.1", "me:S ms:S", "any tag"),
        ("p1.1 r1 r1.1 | s0 s0.1", "me:P ms:D", "seen only if the first was buffered"),
        ("p1 s1 | p0 s0", "me:D ms:D", "both look first"),
        ("s1 p1 r1 | s0 p0 r0", "me:P ms:D", "both send first"),
        ("s1^b p1 r1 | s0^b p0 r0", "me:S ms:S", "and may go on"),
        ("ir1=h p1 w(h) | s0", "me:D ms:D", "a receive posted before takes it"),
        ("ir1=h p1 w(h) r1 | s0 s0", "me:S ms:S", "the second message is seen"),
        ("A=01 :: p1@A r1 | s0", "me:D ms:D", "a message of another group"),
        ("A=01 :: p1@A r1@A | s0@A", "me:S ms:S", "of this group"),
        ("p1 r1 | s0 | ", "g:X n:X mp:X", "no other model has it"),
    ),
)

OWN: Rule = (
    (
        "A message to oneself: MPI has it, NCCL within one group call, torch's gloo refuses "
        "it (SEM 3, PG010)"
    ),
    (
        ("is0=h r0 w(h) | ", "me:S ms:S", "started, received, waited for"),
        ("ir0=h s0 w(h) | ", "me:S ms:S", "the receive is posted first"),
        ("s0 r0 | ", "me:P ms:D", "the receive is behind the send"),
        ("s0:4k r0:4k | ", "me:D ms:D", "and the message too large"),
        ("s0^b r0 | ", "me:S ms:S", "or buffered"),
        ("s0^s r0 | ", "me:D ms:D", "or synchronous"),
        ("r0 s0 | ", "me:D ms:D", "nothing can be buffered that is not sent"),
        ("is0=h w(h) r0 | ", "me:P ms:D", "waited for too early"),
        ("is0=g ir0=h w(g,h) | ", "me:S ms:S", "both nonblocking"),
        ("is0:1=h r0:2 w(h) | ", "me:S ms:S", "a shorter message is taken"),
        ("is0:2=h r0:1 w(h) | ", "me:M ms:M", "a longer one is not"),
        ("is0#a=h r0#b w(h) | ", "me:M ms:M", "other data"),
        ("is0.1=h r0 w(h) | ", "me:D ms:D", "another tag"),
        ("is0=h r* w(h) | ", "me:S ms:S", "any source is also the rank itself"),
        ("is0=h w(h) r* | s0", "me:P ms:D", "any source, too late for a synchronous one"),
        ("b[is0 ir0] | ", "n:S nl:D", "one launch; lazily all of the world make the communicator"),
        ("b[ir0 is0] ar | ar", "n:S", "in either order"),
        ("b[is0] b[ir0] | ", "n:D", "two launches: the first never ends"),
        ("b[ir0] b[is0] | ", "n:D", "nor does a receive"),
        ("b[is0:2 ir0:1] ar | ar", "n:M", "sizes"),
        ("b[is0 ir0 is1 ir1] | b[is0 ir0]", "n:S", "beside messages to others"),
        ("b[is0 ir0] ar | ar", "n:S g:X", "gloo has none"),
    ),
)

ADDED: Rule = (
    (
        "A registered operation: degree all or root, the fields that agree, or another "
        "spelling (how-to/add-an-operation); scan and exscan: MPI only, as collectives (PLAN)"
    ),
    (
        ("shift | shift", "all:S", "degree all, and everybody comes"),
        ("shift | shift:2", "all:S", "its sizes may differ"),
        ("shift | shift:1i", "all:M", "its types may not"),
        ("shift#a | shift#b", "all:M", "nor labels"),
        ("shift shift | shift", "all:D", "the second lacks a member"),
        ("shift | ar", "all:M", "another operation"),
        ("shift=h w(h) | shift=h w(h)", "all:S", "asynchronous"),
        ("shift s1 | shift r0", "all:S", "before a message"),
        ("shift s1 | r0 shift", "g:D n:D m:D", "on both sides of one"),
        ("deal0 | deal0", "all:S", "degree root"),
        ("deal0 | deal1", "all:M", "the roots have to agree"),
        ("deal0 | deal0:2", "all:M", "sizes, too: agree is all by default"),
        ("deal0 | sc0", "all:M", "a degree like scatter's is no scatter"),
        ("deal0 ba | deal0 ba | ba deal0", "all:M", "kinds cross"),
        ("collect | collect", "all:S", "another name of all_gather"),
        ("collect | ag", "all:S", "which it meets"),
        ("collect | ag:2", "all:M", "with its rules of agreement"),
        ("collect | ar", "all:M", "and of kinds"),
        ("scan | scan", "m:S", "a scan"),
        ("scan | exscan", "m:M", "two kinds"),
        ("scan:1 | scan:2", "m:M", "sizes"),
        ("scan | ", "m:D", "everybody is waited for"),
        ("scan scan | scan", "m:D", "the second lacks a member"),
        ("ar scan | ar scan", "g:X n:X m:S", "no other model has it"),
    ),
)
