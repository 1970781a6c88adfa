"""Every construct against Bash itself: `python3` is a function there that writes down its arguments."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from autotune.verl_config.launch_script.shell import Shell
from autotune.verl_config.launch_script.text import is_known, shown
from autotune.verl_config.launch_script.variables import Variables

RECORDER = 'python3() { printf "%s\\n" "$@" --; }; ray() { :; }; tee() { cat; }\n'

CONSTRUCTS = {
    "continued lines": "python3 -m x \\\n  a=1 \\\n    b=2",
    "crlf": "N=8\r\npython3 a=$N \\\r\n b=2\r\n",
    "a comment ends the command": "python3 a=1 \\\n  # b=2 \\\n",
    "a comment in backticks": "python3 a=1 \\\n  `# why` \\\n  b=2",
    "defaults": 'N=${N:-8}; M=${M:-$N}; python3 n=$N m=${M} k=${K-"a b"} "l=${L:-x y}"',
    "default that is set": 'N=; python3 a=${N:-1} b=${N-2}= "c=${N:+3}" d=${Q+4}=',
    "assigning default": "python3 a=${A:=3} b=$A",
    "default of a default": 'A=${B:-"${C:-deep}/x"}; python3 "$A"',
    "home": 'D="$HOME/data"; T=~/t; python3 a="$D/x" b=$T c=~/u ~/v "~/w"',
    "arithmetic": "P=1024; R=$((P * 8)); python3 n=$((P + R)) m=$(( (P+R) / 3 )) k=$((R > P ? 1 : 2))",
    "quotes": """python3 a='x "y" $HOME' "b=\\"q\\" \\$z \\\\ '" c=d\\ e 'f'"g"h $'i\\tj'""",
    "lists": """A="['a', 'b']"; python3 x="$A" y=['c','d'] 'z=["e","f"]' w=[1,2]""",
    "signs": "python3 +a.b=1 ++c=2 ~d '~e=3'",
    "arrays": 'A=(a=1 "b=x y"); A+=(c=3); A+=("d=$HOME"); python3 "${A[@]}" n=${#A[@]} f=${A[1]}',
    "array pieces": 'A=(1 2 3); python3 "${A[@]:1}" "${A[@]:0:2}" x${A[*]}y',
    "empty arrays": 'A=(); python3 "${A[@]}" "$@" $@ "${B[@]}" end',
    "array over lines": 'A=(\n  # one\n  a=1\n\n  b="2 3" # two\n)\npython3 "${A[@]}"',
    "an array within a word": 'A=(1 2); python3 "<${A[@]}>"',
    "words in a variable": 'X="a=1 b=2\n  c=3 \\\n d=4"; python3 $X "$X"',
    "strings joined": 'A="a=1"; B="b=2"; A="$A $B"; A+=" c=3"; python3 $A',
    "replaced": 'A="actor.x=1 actor.y=2"; python3 ${A//actor/critic} ${A/actor/z} ${A%% *} ${A##* }',
    "case of letters": "A=Qwen; python3 ${A,,} ${A^^} ${#A} ${A:1:2} ${A: -2}",
    "indirect": "A=B; B=3; python3 ${!A}",
    "if decided": (
        'E=vllm\nif [ "$E" = vllm ]; then X=1; elif [[ $E == s* ]]; then X=2; else X=3; fi; python3 x=$X'
    ),
    "elif decided": (
        'E=sglang; if [ "$E" = vllm ]; then X=1; elif [[ $E == s* ]]; then X=2; else X=3; fi; python3 $X'
    ),
    "numbers compared": "N=8; if [ $N -gt 4 ] && (( N % 2 == 0 )); then X=big; else X=small; fi; python3 $X",
    "tests of emptiness": (
        'if [[ -z "${Q}" ]]; then A=1; fi; [ -n "$HOME" ] && B=2; [ -n "$Q" ] || C=3; python3 $A $B $C'
    ),
    "negated": 'if ! [ "a" = "b" ]; then A=1; fi; [[ ! ( a == b && c == c ) ]] && B=2; python3 $A $B',
    "quoted pattern": '[[ "a*" == "a*" ]] && A=1; [[ ab == "a*" ]] || B=2; python3 $A $B',
    "case decided": "E=fsdp2; case $E in megatron) X=1;; fsdp|fsdp2) X=2;; *) X=3;; esac; python3 $X",
    "case default": 'E=other; case "$E" in mega*) X=1;; *) X=3;; esac; python3 $X',
    "for": 'for f in a b "c d"; do A+=("x=$f"); done; python3 "${A[@]}"',
    "for with break": "for i in 1 2 3; do [ $i = 2 ] && break; X+=$i; done; python3 $X",
    "no arguments": 'N=${1:-4}; while [[ $# -gt 0 ]]; do N=9; shift; done; python3 $N $# "${@:2}"',
    "set arguments": 'set -- a "b c"; shift; python3 "$@" $#',
    "functions": 'run() { local m=$1; shift; python3 -m $m "$@"; }; run x.y a=1 "b=2 3"',
    "functions with a keyword": "function go { python3 $1 && return 0; python3 never; }; go a; python3 after",
    "pipes and redirections": (
        "python3 a=1 2>&1 | tee log.txt; python3 b=2 > /dev/stdout 2> /dev/null &\nwait"
    ),
    "sequence": (
        "true && python3 a=1; false || python3 b=2;"
        " { python3 c=3; }; ( X=1; python3 d=$X ); python3 e=${X:-}."
    ),
    "own environment": "A=1 B=$HOME python3 x=1; python3 A=${A:-}.",
    "eval": "C='python3 a=1'; eval \"$C b=2\"; eval $C",
    "subshell keeps to itself": "X=1; (X=2); python3 $X",
    "exit ends": "python3 a; exit 0; python3 b",
    "unset": "X=1; unset X; python3 a=${X:-2}",
    "heredoc": "cat > /dev/null <<EOF\npython3 never\nEOF\npython3 a=1",
    "read only and declared": "declare -a A=(1 2); readonly N=3; export M=4 K; python3 ${A[1]} $N $M",
    "set -x around": "set -xeuo pipefail\nexport A=1\nray start --head\npython3 a=$A",
    "globs stay without files": "python3 'a=*' b=nothing-like-*.this",
}


def read(text):
    shell = Shell(Variables({"HOME": "/home/me"}))
    shell.follow(text)
    return shell, [command for command in shell.commands if shown(command.words[0]) == "python3"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs Bash to compare with")
@pytest.mark.parametrize("name", CONSTRUCTS)
def test_a_command_gets_the_words_that_bash_gives_it(name, tmp_path):
    text = CONSTRUCTS[name]
    done = subprocess.run(
        ["bash", "-c", RECORDER + text.replace("\r", "")],
        cwd=tmp_path,
        env={"HOME": "/home/me", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    expected = [call.split("\n") for call in done.stdout.split("--\n")[:-1]]
    expected = [[word for word in call[:-1]] for call in expected]
    _, commands = read(text)
    assert all(is_known(word) for command in commands for word in command.words)
    assert [
        [line for word in command.words[1:] for line in shown(word).split("\n")] for command in commands
    ] == expected


UNKNOWN = {
    "a variable from outside": ("python3 a=$GONE/x", "a=$GONE/x", "GONE is not set in the script"),
    "an argument": ("python3 a=$1", "a=$1", "argument 1 of the script"),
    "a command's output": (
        "D=$(date +%s)\npython3 a=run-$D",
        "a=run-$(date +%s)",
        "line 1: what `$(date +%s)` prints",
    ),
    "a file test": ("if [ -f x ]; then A=1; else A=2; fi\npython3 a=$A", "a=${A}", "`-f x` looks at files"),
    "a command's success": (
        "if command -v nvcc; then A=1; fi\npython3 a=$A",
        "a=${A}",
        "the outcome of a command",
    ),
    "a case on the unknown": (
        "case $H in a) A=1;; b) A=2;; esac\npython3 a=$A",
        "a=${A}",
        "`case` on something unknown",
    ),
    "arithmetic with it": ("python3 a=$((GONE * 2))", "a=$((GONE * 2))", "GONE is not set"),
    "braces": ("python3 a={b:1,c:2}", "a={b:1,c:2}", "several words of unquoted braces"),
    "a required one": ("python3 a=${N:?}", "a=${N:?}", "has to be given"),
    "a read in file": (". ./env.sh\npython3 a=$N", "a=$N", "perhaps in ./env.sh"),
    "read": ("read -r N\npython3 a=$N", "a=${N}", "`read` sets N"),
    "a folder after cd": ("cd /x\npython3 a=$PWD", "a=$PWD", "changes the folder"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_the_text_does_not_tell_keeps_its_text_and_reason(name):
    text, word, why = UNKNOWN[name]
    shell = Shell(Variables({"HOME": "/home/me", "PWD": "$PWD"}))
    shell.follow(text)
    found = shell.commands[-1].words[1]
    assert shown(found) == word
    assert why in found[-1].why or why in "".join(piece.why for piece in found)


def test_what_both_branches_agree_on_is_known():
    _, commands = read("if [ -d x ]; then A=1; B=1; else A=1; B=2; fi; python3 $A")
    assert commands[0].words[1] == (commands[0].words[1][0],)
    assert is_known(commands[0].words[1])


def test_what_an_array_has_in_every_branch_is_known_and_the_rest_is_named():
    _, commands = read('A=(a=1); if [ -d x ]; then A+=(b=2); fi; python3 "${A[@]}"')
    known_word, named = commands[0].words[1:]
    assert is_known(known_word)
    assert shown(named) == "b=2"
    assert "`[ -d x ]` (line 1)" in named[0].why


def test_a_branch_that_gives_up_does_not_count():
    _, commands = read("if [ -d x ]; then echo no; exit 1; else A=1; fi; python3 a=$A")
    assert shown(commands[0].words[1]) == "a=1"
    assert is_known(commands[0].words[1])


def test_a_check_of_the_arguments_does_not_end_the_reading():
    _, commands = read('if [ "$#" -lt 2 ]; then echo usage; exit 1; fi; python3 a=1')
    assert len(commands) == 1


def test_a_command_in_an_undecided_branch_says_so():
    _, commands = read("if [ -d x ]; then python3 a=1; fi; python3 b=2")
    assert "`[ -d x ]`" in commands[0].only_if
    assert commands[1].only_if == ""


def test_text_that_is_no_bash_is_noted_and_the_rest_is_read():
    shell, commands = read("python3 a=1\nif then fi )\n")
    assert commands
    assert shell.notes


def test_functions_that_call_themselves_end():
    _, commands = read("f() { f; }; f; python3 a=1")
    assert len(commands) == 1
