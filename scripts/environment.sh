# Sourced by scripts/learn and scripts/test: makes .venv at the root of the repository and installs
# blocklearn into it, once. Done again when pyproject.toml changes, the repository moves, or an
# installation was interrupted. Needs `root`, the path of the repository.
# shellcheck shell=bash disable=SC2154

venv="$root/.venv"

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# Whether $1 is a Python that this package runs on and that can make environments.
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

# What an installation depends on; kept in a stamp file that is written when it is complete.
stamp_text() {
    printf 'root %s\n' "$root"
    cat "$root/pyproject.toml"
}

# Whether the environment has what `pip install .[$1]` gives ($1 empty: no extra).
installed() {
    [ -x "$venv/bin/python" ] && [ -f "$venv/.installed$1" ] &&
        stamp_text | cmp -s - "$venv/.installed$1" &&
        "$venv/bin/python" -I -c 'import typer' 2>/dev/null # not after an upgrade of Python
}

# Whether pip works in .venv, and it was not moved: commands in it have its path inside.
usable_venv() {
    local first="root $root"
    [ ! -f "$venv/.installed" ] || read -r first <"$venv/.installed"
    [ "$first" = "root $root" ] && "$venv/bin/python" -I \
        -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# make_environment [EXTRA]: afterwards .venv has blocklearn, editable, with the extra.
make_environment() {
    local extra="${1:-}"
    installed "$extra" && return
    # Two commands started at once must not install into each other's feet. The lock is on a folder
    # that exists, so it leaves no file; a system without flock goes on without it.
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
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
        --editable "$root${extra:+[$extra]}" >&2 || {
        say "the installation failed; the lines above say why. Run it again to go on."
        return 69
    }
    stamp_text >"$venv/.installed.new"
    cp "$venv/.installed.new" "$venv/.installed$extra"
    mv "$venv/.installed.new" "$venv/.installed"
    exec 9<&-
}
