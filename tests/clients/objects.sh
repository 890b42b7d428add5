# Sourced by the runs beside it that store objects, in the place of cloud.sh: the cloud has S3 at the root of the host
# `localhost`, too, for clients that know of no path before the bucket.
#
#   KEY, SECRET    for S3, of the project PROJECT, which is demo
#   S3             the endpoint without a path
#   OBJECT_OPTIONS it has beside those here, of the object store
#   try WHAT COMMAND…   runs it, and says whether it succeeded
#   tried          ends the run: with an error if something that was tried did not succeed

OPTIONS="${OPTIONS:-}
[object_store]
s3_hosts = [\"localhost\"]
${OBJECT_OPTIONS:-}"
. "$(dirname "${BASH_SOURCE[0]}")/cloud.sh"
S3=http://localhost:$PORT

read -r KEY SECRET PROJECT <<< "$("$PYTHON" - "$URL/identity/v3" <<'PYTHON'
import json, sys
from urllib.request import Request, urlopen

def ask(path, body, token=""):
    headers = {"Content-Type": "application/json"} | ({"X-Auth-Token": token} if token else {})
    with urlopen(Request(sys.argv[1] + path, json.dumps(body).encode(), headers)) as answer:
        return answer.headers, json.load(answer)

domain = {"id": "default"}
user = {"name": "demo", "domain": domain, "password": "password"}
auth = {"identity": {"methods": ["password"], "password": {"user": user}}}
auth["scope"] = {"project": {"name": "demo", "domain": domain}}
headers, told = ask("/auth/tokens", {"auth": auth})
token, found = headers["X-Subject-Token"], told["token"]
path = f"/users/{found['user']['id']}/credentials/OS-EC2"
made = ask(path, {"tenant_id": found["project"]["id"]}, token)[1]["credential"]
print(made["access"], made["secret"], found["project"]["id"])
PYTHON
)"
unset AWS_CA_BUNDLE AWS_PROFILE   # of whoever runs this
export HOME=$WORK AWS_ACCESS_KEY_ID=$KEY AWS_SECRET_ACCESS_KEY=$SECRET AWS_DEFAULT_REGION=RegionOne

# rclone reads its remotes `swift:` and `s3:` here.
export RCLONE_CONFIG=$WORK/rclone.conf
cat > "$RCLONE_CONFIG" <<CONF
[swift]
type = swift
auth = $URL/identity/v3
auth_version = 3
user = demo
key = password
domain = Default
tenant = demo
tenant_domain = Default

[s3]
type = s3
provider = Other
endpoint = $URL/s3
region = RegionOne
access_key_id = $KEY
secret_access_key = $SECRET
force_path_style = true
CONF

needs() { # PROGRAM
    command -v "$1" > /dev/null || { echo "$1 is not installed (apt-get install $1)"; exit 2; }
}

passed=0 failed=0
try() { # WHAT COMMAND…
    if "${@:2}" > "$WORK/output" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $1"
    else
        failed=$((failed + 1))
        echo "FAILED  $1"
        sed 's/^/        /' "$WORK/output"
    fi
}
tried() {
    echo "$passed of $((passed + failed)) passed"
    [ $failed = 0 ]
}

files() { # DIRECTORY: some of each kind, in folders, with names that need quoting; one comes in parts
    mkdir -p "$1/a b/é" "$1/c"
    for number in 1 2 3 4 5; do head -c $((number * 70000)) /dev/urandom > "$1/c/$number"; done
    printf 'percent' > "$1/a b/100%"
    printf 'plus' > "$1/a b/é/1+1=2&x#y"
    : > "$1/empty"
    head -c 20000000 /dev/urandom > "$1/large"
}
