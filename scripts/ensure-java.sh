#!/usr/bin/env bash
# Spark needs Java 17 or newer. Silent when there is one. Installs a headless JRE when run as root on
# a system with apt-get; otherwise says how to get one, and fails.
set -euo pipefail

needed=17

# The java that Spark will start: JAVA_HOME wins over PATH.
java_command() {
    if [[ -n "${JAVA_HOME:-}" ]]; then
        echo "$JAVA_HOME/bin/java"
    else
        echo java
    fi
}

# Its major version, 0 when there is none: "17.0.15" is 17, "1.8.0_402" is 8, "25-ea" is 25.
java_version() {
    local said
    said=$("$(java_command)" -version 2>&1) || said=
    if [[ $said =~ \ version\ \"(1\.)?([0-9]+) ]]; then
        echo "${BASH_REMATCH[2]}"
    else
        echo 0
    fi
}

fact() {
    local version
    version=$(java_version)
    if ((version == 0)); then
        echo "No Java found: $(java_command) does not run."
    else
        echo "Java is too old: $(java_command) is version $version."
    fi
    echo "Spark needs Java $needed or newer."
}

# The first package that this system offers and that is recent enough.
offered_package() {
    local package
    for package in openjdk-{17,21,25}-jre-headless default-jre-headless; do
        if [[ $(apt-cache policy "$package") =~ Candidate:\ [^\(] ]]; then
            echo "$package"
            return
        fi
    done
    return 1
}

(($(java_version) >= needed)) && exit 0

if [[ -n "${JAVA_HOME:-}" ]]; then
    fact >&2
    echo "JAVA_HOME is $JAVA_HOME: unset it, or set it to a Java $needed or newer." >&2
    exit 1
fi

if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    fact >&2
    cat >&2 <<-'HOW'
	Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless   (or default-jre-headless)
	Fedora, RHEL:    sudo dnf install java-latest-openjdk-headless
	macOS:           brew install openjdk@17
	Any other Java 17 or newer will do: put it on PATH, or set JAVA_HOME to its folder.
	HOW
    exit 1
fi

fact
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq </dev/null >/dev/null
if ! package=$(offered_package); then
    echo "This system's package sources offer no Java $needed: install one, and set JAVA_HOME to its folder." >&2
    exit 1
fi
echo "Installing $package"
apt-get install -qq -y --no-install-recommends "$package" </dev/null >/dev/null
hash -r
if (($(java_version) < needed)); then
    fact >&2
    echo "$package is installed, but another java comes first on PATH: set JAVA_HOME to its folder." >&2
    exit 1
fi
