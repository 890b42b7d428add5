# Sourced by the runs beside it: a cloud of its own on fake drivers, for as long as the run lasts. COMPUTE and OPTIONS
# are more of its configuration.
#
#   ROOT, WORK     the checkout; a directory that goes with the run
#   URL            of the cloud, which has OPTIONS beside those here
#   CLOUD, start   its process, and what starts another one when that was killed
#   client NAME PACKAGE…          makes VENV, where the client is
#   functional MODULE [REGEX]     runs the client's own tests

set -eu
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PYTHON=${CLOUDCTL_PYTHON:-$ROOT/.venv/bin/python}
PORT=${PORT:-8791}
URL=http://127.0.0.1:$PORT
WORK=$(mktemp -d)
export CLOUDCTL_ADMIN_PASSWORD=password CLOUDCTL_DEMO_PASSWORD=password

cat > "$WORK/cloud.toml" <<TOML
[compute]
require_networks = false   # suites create servers without networks at old microversions
${COMPUTE:-}

[policy]
file = "$ROOT/etc/policy-openstack.toml"
${OPTIONS:-}
TOML
! curl -s -o /dev/null "$URL" || { echo "$URL is somebody else's: choose another PORT"; exit 1; }
start() { # again, after a kill, with the same state
    (cd "$WORK" && PYTHONPATH=$ROOT exec "$PYTHON" "$(dirname "$PYTHON")/twist" cloudctl --config=cloud.toml \
        --state-dir="$WORK/state" --listen="tcp:$PORT:interface=127.0.0.1" \
        --ha-listen="tcp:$((PORT + 1000)):interface=127.0.0.1") >> "$WORK/cloud.log" 2>&1 &
    CLOUD=$!
    until curl -sf -o /dev/null "$URL/healthcheck"; do
        kill -0 $CLOUD || { cat "$WORK/cloud.log"; exit 1; }
        sleep 1
    done
}
trap 'kill $CLOUD; rm -rf "$WORK"' EXIT
start

login() { # NAME USER [SCOPE]: a cloud of clouds.yaml; by default of the project named like the user
    cat <<YAML
  $1:
    auth: {auth_url: $URL/identity/v3, username: $2, password: password, user_domain_id: default,
           ${3:-project_name: $2, project_domain_id: default}}
    region_name: RegionOne
YAML
}
{
    echo clouds:
    for name in functional_admin devstack-admin admin; do login $name admin; done
    for name in devstack demo; do login $name demo; done
    login devstack-system-admin admin "system_scope: all"
} > "$WORK/clouds.yaml"
export OS_CLIENT_CONFIG_FILE=$WORK/clouds.yaml

client() { # NAME PACKAGE…
    VENV=${VENV:-${CLIENTS:-$ROOT/.clients}/$1}
    [ -x "$VENV/bin/python" ] || python3 -m venv "$VENV"
    [ -e "$VENV/.installed" ] || "$VENV/bin/pip" install --quiet "${@:2}"
    touch "$VENV/.installed"
}

functional() { # MODULE [REGEX]
    site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    cd "$WORK"
    PYTHON=$VENV/bin/python OS_TEST_TIMEOUT=300 "$VENV/bin/stestr" --test-path "$site/${1//.//}" --top-dir "$site" \
        run --serial "${2:-}"
}
