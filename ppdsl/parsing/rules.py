"""The codes of syntax faults, as ``ppdsl explain`` tells them."""

from __future__ import annotations

from ppdsl.diagnostics import Rule

UNKNOWN_SYMBOL = Rule(
    "PP101",
    "error",
    "unknown symbol",
    "A layout is written with `E`, `t`, `m`, `N`, `L`, bars, parentheses, repeats, owners, commas and white space. On any other character "
    "Megatron-LM fails with an assertion, after the job has started.",
    wrong="check 'Et*3|t*3Nl'",
    right="check 'Et*3|t*3NL'",
)
NOT_A_SYMBOL = Rule(
    "PP102",
    "error",
    "`*` or a number where a symbol must stand",
    "A repeat follows what it repeats: `t*3`, `(tt|)*29`. A number alone means nothing. Megatron-LM expands repeats by substituting text, "
    "and may read the number as part of another count: `t(*2t)*2` has five layers there.",
    wrong="check 'E3*tL'",
    right="check 'Et*3L'",
)
UNCLOSED = Rule(
    "PP103",
    "error",
    "`(` never closed",
    "Each opening parenthesis needs a closing one; the repeat stands behind that: `(tt|)*3`.",
    wrong="check 'E(tt|*3L'",
    right="check 'E(tt|)*3L'",
)
UNOPENED = Rule(
    "PP104",
    "error",
    "`)` never opened",
    "Each closing parenthesis needs an opening one before it.",
    wrong="check 'Ett)|L'",
    right="check 'E(tt)|L'",
)
REPEATED_REPEAT = Rule(
    "PP105",
    "error",
    "a repeat of a repeat",
    "A repeat cannot be repeated, and Megatron-LM reads `(t)*2*3` as four layers. Write `(t)*6`, or `((t)*2)*3` where the two counts mean "
    "something.",
    wrong="check 'E(t)*2*3L'",
    right="check 'E(t)*6L'",
)
BAD_COUNT = Rule(
    "PP106",
    "error",
    "repeat count missing, not ASCII digits, or over 12 digits",
    "Behind `*` stands a count of 1 to 12 ASCII digits. Megatron-LM also takes the digits of other scripts, some of which look like these. "
    "The rank behind `@` follows the same rule.",
    wrong="check 'Et*L'",
    right="check 'Et*2L'",
)
SPLIT_NUMBER = Rule(
    "PP107",
    "error",
    "comma or space inside a number",
    "Commas and spaces are allowed between tokens, but the digits of one number must touch. Megatron-LM deletes commas first and reads "
    "`Et*1,0L` as ten layers.",
    wrong="check 'Et*1,0L'",
    right="check 'Et*10L'",
)
EMPTY_GROUP = Rule(
    "PP108",
    "error",
    "empty group",
    "A group repeats what stands in it, so something has to. An empty stage is a bar: `(|)*2` makes two.",
    wrong="check 'E()*2L'",
    right="check 'E(|)*2L'",
)
OWNER_PLACE = Rule(
    "PP109",
    "error",
    "`@` not at the end of its stage, twice in it, or on some stages only",
    "An owner is the last thing in its stage, before the bar, and either every stage has one or none has: `Et*3@0|t*3@1|t*3NL@0`.",
    wrong="check 'Et@0|tL'",
    right="check 'Et@0|tL@1'",
)
NOTHING = Rule(
    "PP110",
    "error",
    "no item is written",
    "The text is empty, or holds only commas and white space. In a script the cause is most often an unset variable.",
    wrong="check ''",
    right="check 'EtL'",
)
HYBRID = Rule(
    "PP111",
    "error",
    "a hybrid-layer pattern",
    "Megatron-LM's hybrid models have a language of their own, given with --hybrid-layer-pattern, in which `E` is a MoE layer and `*` is "
    "attention. It looks alike but means something else, so it is never read as a layout.",
    wrong="check 'M-M-|M-M*-'",
    right="check 'Ett|ttL'",
)
REMOVAL = Rule(
    "PP112",
    "error",
    "`*0` on a group that holds a group, or apart from its symbol",
    "`*0` removes what it stands behind. Behind a group that holds a group, Megatron-LM removes another part of the text instead: it reads "
    "`E((t)*0|)*0L` as `E|L`. Behind white space or a backslash it removes only that: it reads `Et *0L` as `EtL`.",
    wrong="check 'E((t)*2|)*0tL'",
    right="check 'EtL'",
)
TOO_LONG = Rule(
    "PP403",
    "error",
    "text longer than the limit",
    "A layout is a short text; what is over 64 KiB is most likely a whole file. --max-text raises the limit.",
    wrong="check 'EtttttttttL' --max-text 10",
    right="check 'Et*9L' --max-text 10",
)
TOO_DEEP = Rule(
    "PP402",
    "error",
    "groups nested deeper than the limit",
    "More than 200 groups inside one another are taken for a fault of the program that wrote the layout.",
    wrong="check 'E" + "(" * 201 + "t" + ")" * 201 + "L'",
    right="check 'E((t))L'",
)

RULES = (
    UNKNOWN_SYMBOL,
    NOT_A_SYMBOL,
    UNCLOSED,
    UNOPENED,
    REPEATED_REPEAT,
    BAD_COUNT,
    SPLIT_NUMBER,
    EMPTY_GROUP,
    OWNER_PLACE,
    NOTHING,
    HYBRID,
    REMOVAL,
    TOO_LONG,
    TOO_DEEP,
)
