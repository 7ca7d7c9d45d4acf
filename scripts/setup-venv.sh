#!/usr/bin/env bash
# Makes .venv with exactly the versions of requirements.lock, and slackwater itself as editable.
# Needs a Python with venv and pip, and nothing else. Safe to run again.
#
# usage: scripts/setup-venv.sh [python]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${1:-python3}
venv_python=.venv/bin/python

die() {
    printf '%s\n' "$@" >&2
    exit 1
}

recent_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

if ! recent_enough "$venv_python"; then
    command -v "$python" >/dev/null 2>&1 ||
        die "No Python found: '$python' is not a command." \
            "Slackwater needs Python 3.11 or newer. If it has another name here: make PYTHON=python3.12 ..."
    recent_enough "$python" ||
        die "Python is too old: '$python' is $("$python" --version 2>&1)." \
            "Slackwater needs Python 3.11 or newer. If there is one under another name: make PYTHON=python3.12 ..."
    # Debian ships Python without the part of venv that installs pip.
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        die "'$python' cannot make virtual environments: its ensurepip module is missing." \
            "On Debian and Ubuntu: apt-get install $("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    echo "Making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi

export PIP_DISABLE_PIP_VERSION_CHECK=1
pip=("$venv_python" -m pip --quiet)

# uv installs several times faster, but does not read pip's configuration: where pip was told which
# index to use, pip it is.
echo "Installing the versions of requirements.lock"
installed=false
if [[ $("$venv_python" -m pip config list) != *index* ]]; then
    "${pip[@]}" install --no-compile "$(grep '^uv==' requirements.lock)"
    if .venv/bin/uv pip install --quiet --python "$venv_python" -r requirements.lock; then
        installed=true
    else
        echo "uv could not install them (above); trying pip, which takes longer"
    fi
fi
$installed || "${pip[@]}" install --no-compile -r requirements.lock

echo "Installing slackwater"
"${pip[@]}" install --no-build-isolation --no-deps --editable .
