# Sourced by scripts/learn and scripts/test. Makes .venv at the root of the repository and installs
# blocklearn into it, once. Repeats this when pyproject.toml changes, the repository moves, or an
# installation was interrupted. Needs `root`, the path of the repository.
# shellcheck shell=bash disable=SC2154

venv="$root/.venv"

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# Succeeds if $1 is a Python that runs this package and can make environments.
suitable_python() {
    command -v "$1" >/dev/null 2>&1 &&
        "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if suitable_python "$name"; then
            command -v "$name"
            return
        fi
    done
    say "Python 3.11 or newer with its venv module is needed, and none is on the PATH"
    say "(looked for python3, python3.14 ... python3.11, python; on Debian or Ubuntu:" \
        "apt install python3 python3-venv)"
    return 1
}

# Prints what an installation depends on; a complete installation keeps it in a stamp file.
stamp_text() {
    printf 'root %s\n' "$root"
    cat "$root/pyproject.toml"
}

# Succeeds if the environment has all packages of `pip install .[$1]` ($1 empty: no extra).
installed() {
    [ -x "$venv/bin/python" ] && [ -f "$venv/.installed$1" ] &&
        stamp_text | cmp -s - "$venv/.installed$1" &&
        "$venv/bin/python" -I -c 'import typer' 2>/dev/null # not after an upgrade of Python
}

# Succeeds if pip works in .venv and .venv was not moved: its commands contain its path.
usable_venv() {
    local first="root $root"
    [ ! -f "$venv/.installed" ] || read -r first <"$venv/.installed"
    [ "$first" = "root $root" ] && "$venv/bin/python" -I \
        -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# make_environment [EXTRA]: installs blocklearn into .venv, editable, with the extra.
make_environment() {
    local extra="${1:-}"
    installed "$extra" && return
    # Two commands started at once must not install at the same time. The lock is on an existing
    # folder, so it leaves no file. A system without flock continues without the lock.
    if command -v flock >/dev/null 2>&1; then
        exec 9<"$root/scripts"
        flock -n 9 || { say "waiting for another installation into .venv"; flock 9 || true; }
        installed "$extra" && { exec 9<&-; return; }
    fi
    local python
    if ! usable_venv; then
        python="$(find_python)" || return 69
        say "making .venv with $("$python" --version)"
        "$python" -m venv --clear "$venv" || {
            say "$python could not make $venv"
            return 69
        }
    fi
    say "installing blocklearn${extra:+ with the extra $extra} into .venv (some minutes, once)"
    rm -f "$venv/.installed$extra"
    # Python compiles a module when it is first imported, in all processes at once; most never are.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-compile \
        --editable "$root${extra:+[$extra]}" >&2 || {
        say "the installation failed; the lines above say why. Run it again to continue."
        return 69
    }
    stamp_text >"$venv/.installed.new"
    cp "$venv/.installed.new" "$venv/.installed$extra"
    mv "$venv/.installed.new" "$venv/.installed"
    exec 9<&-
}
