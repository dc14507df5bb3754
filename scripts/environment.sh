# Sourced by the other scripts: makes .venv and installs the four distributions into it, once and again after a change.
# PYTHON chooses another interpreter, which gets an environment of its own: .venv-3.13.

cd "$(dirname "$0")/.." || exit 1
ENVIRONMENT=.venv
if [ -n "$PYTHON" ]; then
    ENVIRONMENT=.venv-$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || exit 1
fi
BUILD_TOOLS="setuptools>=77 Cython>=3.1 wheel"

say() { printf '\n== %s\n' "$*"; }

stop() {
    printf '%s\n' "$*" >&2
    exit 1
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
}

# What a fresh Debian or Ubuntu may lack, all of it in one sentence.
check_machine() {
    python=$(find_python)
    [ -n "$python" ] || stop "Python 3.11 or newer is needed: apt install python3 python3-venv python3-dev build-essential"
    missing=
    "$python" -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
    "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || missing="$missing python3-dev"
    command -v cc >/dev/null || command -v gcc >/dev/null || missing="$missing build-essential"
    [ -z "$missing" ] || stop "Something is missing here, please run: apt install$missing"
}

is_current() {
    [ -e $ENVIRONMENT/installed ] && [ -z "$(find proto packages -newer $ENVIRONMENT/installed -type f \
        ! -path 'packages/scaler-gui/*' \
        ! -path '*/build/*' ! -name '*.so' ! -name '*.c' ! -path '*.egg-info/*' ! -name '*.pyc' -print -quit)" ]
}

# They are kept, since tests/packaging installs the same ones in other environments.
# No cache: pip takes a folder named scaler-client for an archive of version "client", and would keep its wheel.
build_wheels() {
    $ENVIRONMENT/bin/python -m pip wheel --disable-pip-version-check --no-deps --no-build-isolation --no-cache-dir \
        --wheel-dir $ENVIRONMENT/wheels "$@" || stop "The build failed, see above."
}

# First the wheels, also if the same version is installed already, then what they require.
install_wheels() {
    pip="$ENVIRONMENT/bin/python -m pip install --disable-pip-version-check"
    $pip --no-index --find-links $ENVIRONMENT/wheels --no-deps --force-reinstall "$@" && $pip "$@" ||
        stop "The installation failed, see above."
}

# With a function as an argument, that is done while the compiler runs, and what it says is shown afterwards.
install_distributions() {
    check_machine
    if [ ! -x $ENVIRONMENT/bin/python ]; then
        say "1/3 making $ENVIRONMENT with $("$python" --version)"
        "$python" -m venv $ENVIRONMENT || stop "Cannot make $ENVIRONMENT."
    fi
    if is_current; then
        return
    fi
    say "2/3 installing build tools"
    # shellcheck disable=SC2086
    $ENVIRONMENT/bin/python -m pip install --disable-pip-version-check $BUILD_TOOLS || stop "pip failed, see above."
    say "3/3 compiling and installing scaler-protocol, scaler-scheduler, scaler-worker and scaler-client (a minute or two)"
    rm -rf proto/build packages/*/build $ENVIRONMENT/wheels/scaler_[!g]*
    ${1:-true} >$ENVIRONMENT/meanwhile 2>&1 &
    build_wheels ./proto ./packages/scaler-scheduler ./packages/scaler-worker ./packages/scaler-client
    wait # only one pip may install at a time
    cat $ENVIRONMENT/meanwhile
    install_wheels scaler-protocol "scaler-scheduler[uvloop,ui]" "scaler-worker[uvloop]" scaler-client
    touch $ENVIRONMENT/installed
}

# The desktop monitor, apart from the others: Qt is large. With a function as an argument, that is done meanwhile.
install_desktop() {
    if [ -e $ENVIRONMENT/desktop ] && [ -z "$(find packages/scaler-gui -newer $ENVIRONMENT/desktop -type f \
        ! -path '*/build/*' ! -path '*.egg-info/*' ! -name '*.pyc' -print -quit)" ]; then
        return
    fi
    say "installing scaler-gui, with Qt"
    rm -rf packages/scaler-gui/build $ENVIRONMENT/wheels/scaler_gui*
    ${1:-true} &
    build_wheels ./packages/scaler-gui
    install_wheels scaler-gui
    wait
    touch $ENVIRONMENT/desktop
}
