"""Tiny plans by hand: a deadlock or a mismatch, where both are possible; what is one call.

As in `rules_calls`. The rule is that of docs/reference/result.md, "Deadlock or mismatch".
"""

from oracle.rules_calls import Rule

BLAME: Rule = (
    (
        "SEM 7.2: an execution is stuck for a cause of its own unless all its stuck actions depend "
        "on a mismatched round; DEADLOCK if every execution has such a cause, else MISMATCH if one "
        "forms a match whose members disagree, else POTENTIAL_DEADLOCK if one has such a cause"
    ),
    (
        ("ar#a ar | ar#b", "all:M", "the second lacks its partner behind a mismatch"),
        ("ar#b ar | ar#b", "all:D", "and here behind nothing"),
        ("ar ar#a | ar#a", "all:D", "an absent label disagrees with nothing"),
        ("s1 ar#a | ar#b", "g:D n:D ms:D me:M mp:M", "stuck in front; buffered it is not"),
        ("B=01 :: ar@B ar#a | ar#b", "all:D", "stuck on another communicator"),
        ("B=01 :: ar#a ar@B | ar#b", "all:D", "nor is that excused by the first"),
        ("ar ar#t ar ar | <ar#u / ar>", "n:M g:M ms:M", "one order of the threads mixes a round"),
        ("ar#t ar#u ar ar | <ar#t / ar#u>", "n:M g:M ms:M", "the other one is a deadlock"),
        ("<rd1 / rd0> | rd1 rd0 rd1 rd0", "n:M", "roots"),
        ("{rs aa} | rs aa | rs aa aa", "g1:M n:M ms:M", "kinds; the third call lacks members"),
        ("{ar#a ar#b} | ar#a ar#b ar", "all:M", "data; so does this third"),
        ("{ar#a%q ar#b~q} | ar#b ar#a ar", "all:D", "one order only, and no round is mixed"),
        ("ar {ar#a ar#b} | ar ar ar ar ar", "all:D", "unlabeled calls mix no round"),
        ("B=01 :: ar@B {ar#a ar#b} | {ar#a ar#b}", "all:D", "stuck before the open order"),
        ("s1 r1 {ar#a ar#b} | s0 r0 {ar#b ar#a}", "g:D n:D ms:D", "head to head before it"),
        ("ga0#a | x ga0#b", "all:D", "behind an exit nothing is issued: no match, no mismatch"),
        ("?c(ga0#a / ) | x ga0#b", "all:P", "the call may be left out"),
        ("!c(ba x / ) sc1 | !c(ba ba / ) sc1", "g:P n:P ms:P", "nor is the scatter behind one"),
        ("A=01 B=01 :: new(A) new(B) ar@A | new(A) x new(B) ar@A", "all:D", "an end, too"),
        ("?c(ar / ) ar#a | ?c(ar / ) ar#b", "all:M", "mixed in some, stuck in some"),
        ("?c(s1 / ) ar#a | ar#a", "g:P n:P ms:P", "stuck in one, and nothing is mixed"),
        ("!c(ar#a / ) | !c(ar#b / ) | ", "n1:M g:M", "two of three members meet"),
        ("!c(ar#a / ) | !c(ar#b / ) | ", "nl:P", "nobody has a communicator to meet on"),
        ("!c(b[is0:2 ir0:1] ba / ) | !c( / )", "nl:P n1:M", "nor for a message to oneself"),
        ("!c(s1#a / ) | !c(r0#b / ) | ", "n1:M nl:M", "the pair has one"),
        ("is0:4k r0:2 is0=h w(h) r0 | ", "ms:M", "a message to oneself behind a mismatch"),
        ("b[ar ar ir1]=h w(h) | rd1", "mp:D g1:D", "one of several that a wait wants never comes"),
        ("ar=h ir1=g w(h,g) | rd1", "mp:D g1:D", "of several handles, too"),
        ("s1#a rd0 s1 rd0 | r0#b r0 rd0", "n1:D nl:D ns:M", "never met in its queue"),
        ("A=01 B=01 :: new(A) new(B) ar@A | new(B) new(A) ar@B", "all:U", "named crosswise"),
        (
            "A=01 B=01 :: new(A) new(B) ar@A ar@B ar@A | new(B) new(A) ar@B ar@A",
            "g:D n:D mp:D",
            "whoever is meant, one call lacks its partner",
        ),
        (
            "A=012 B=12 :: new(A) ar | new(A) ar | ?c(new(A) / new(B) new(A)) ar",
            "n1:M ns:M",
            "in one branch members of different groups meet",
        ),
    ),
)

LISTS: Rule = (
    (
        "SEM 2: coalesced is one operation of its list; NCCL: a group of calls; measured on gloo "
        "(torch 2.13): a list of one and the call itself meet, in all three kinds, and "
        "TORCH_DISTRIBUTED_DEBUG=DETAIL raises"
    ),
    (
        ("co(ar _) | ar", "all:S gd:M", "a list of one"),
        ("ar | co(ar _)", "all:S gd:M", "on the other side"),
        ("co(ar _) | ar | ar", "all:S gd:M", "one of three"),
        ("co(ar _:2) | ar:2", "all:S gd:M", "with its size"),
        ("co(ar _:2) | ar:1", "all:M", "another size"),
        ("co(ar _:2i) | ar:2", "all:M", "another type"),
        ("co(ar _:?) | ar:2", "all:S gd:M", "an absent size is compared with nobody"),
        ("co(ar a) | ar#a", "all:S gd:M", "equal labels"),
        ("co(ar a) | ar#b", "all:M", "other labels"),
        ("co(ar a) | ar", "all:S gd:M", "an absent label is compared with nobody"),
        ("co(ar _)#a | ar#b", "all:M", "the label of the whole"),
        ("co(ar _)#a | ar#a", "all:S gd:M", "which is that of its only part"),
        ("co(ar _ _) | ar:2", "all:M", "two of one are not one of two"),
        ("co(ar _ _) | ar", "all:M", "nor one of them"),
        ("co(ar _ _) | co(ar _)", "all:M", "lists of other lengths"),
        ("co(ar _) | co(ar _)", "all:S", "two lists of one"),
        ("co(ar _) | ag", "all:M", "another kind"),
        ("co(ar _) ar | ar co(ar _)", "all:S gd:M", "round by round"),
        ("co(ar _) | ar ar", "all:D gd:M", "the second lacks its partner"),
        (
            "?c(co(ar _) / ) | ?c(ar / ) ba",
            "all:M",
            "the list meets the barrier",
        ),
        ("ba ?c(co(ar _) / ) | ba ar", "all:P gd:M", "one may be left out"),
        ("co(ar a) co(ar b) | ar#b ar#a", "all:M", "exchanged"),
    ),
)
