# Sourced by the runs beside it: a cloud of its own on fake drivers, for as long as the run lasts.
#
#   ROOT  the checkout; CLOUDCTL_PYTHON  one with what cloudctl needs; WORK  a directory that goes with the run; URL  of the cloud

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

[policy]
file = "$ROOT/etc/policy-openstack.toml"
TOML
(cd "$WORK" && PYTHONPATH=$ROOT exec "$PYTHON" "$(dirname "$PYTHON")/twist" cloudctl --config=cloud.toml \
    --state-dir="$WORK/state" --listen="tcp:$PORT:interface=127.0.0.1" \
    --ha-listen="tcp:$((PORT + 1000)):interface=127.0.0.1") > "$WORK/cloud.log" 2>&1 &
CLOUD=$!
trap 'kill $CLOUD; rm -rf "$WORK"' EXIT
until curl -sf -o /dev/null "$URL/healthcheck"; do
    kill -0 $CLOUD || { cat "$WORK/cloud.log"; exit 1; }
    sleep 1
done
