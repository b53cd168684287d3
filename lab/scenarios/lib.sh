# Shared by the scenarios. Each is a script with OPTIONS (the agent's, NAME=VALUE, one a line), up and down:
#   scenarios/NAME options | up | down
# Everything it makes is in a namespace of its own, which down removes.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
NS=sc-$(basename "$0")
OPTIONS=
k() { node kubectl -n "$NS" "$@"; }
ext() { ip netns exec $EXT_NS "$@"; }
dbg() { node cilium-dbg "$@"; }
pin() { echo "/sys/fs/bpf/tc/globals/$1"; }
namespace() { node kubectl get namespace "$NS" >/dev/null 2>&1 || node kubectl create namespace "$NS" >/dev/null; }
apply() { k apply -f - >/dev/null; }
ready() { [ "$(k get pods -l "app=$1" --no-headers 2>/dev/null | grep -c '1/1 *Running')" = "$2" ]; }
gone() { ! k get "$@" 2>/dev/null | grep -q .; }

# pod NAME COMMAND [YAML of the container, one line]: one pod.
pod() {
  apply <<Y
apiVersion: v1
kind: Pod
metadata: {name: $1, labels: {app: $1}}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: ${GRACE:-1}
  containers:
  - {name: main, image: "lab.local/tools:1", imagePullPolicy: Never, command: [$2]${3:+, $3}}
Y
}
# web NAME REPLICAS: pods that answer on 8080.
web() {
  apply <<Y
apiVersion: apps/v1
kind: Deployment
metadata: {name: $1}
spec:
  replicas: $2
  selector: {matchLabels: {app: $1}}
  template:
    metadata: {labels: {app: $1}}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: ${GRACE:-1}
      containers:
      - name: main
        image: lab.local/tools:1
        imagePullPolicy: Never
        command: [/app, web]
        ports: [{containerPort: 8080, name: http}]
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
Y
  until_ok 60 "$1" ready "$1" "$2"
}
# service NAME SPEC [METADATA]: a Service, its spec as YAML in one line.
service() {
  apply <<Y
apiVersion: v1
kind: Service
metadata: {name: $1${3:+, $3}}
spec: $2
Y
}
cluster_ip() { k get service "$1" -o jsonpath='{.spec.clusterIP}'; }
# client: a pod to make requests in.
client() { pod client '/bin/sleep, "86400"'; until_ok 60 client ready client 1; }
down() { node kubectl delete namespace "$NS" --wait=true >/dev/null; }

run() {
  case ${1:-} in
  options) [ -z "$OPTIONS" ] || printf '%s\n' "$OPTIONS" ;;
  up) namespace; up ;;
  down) down ;;
  *) declare -F "${1:-}" >/dev/null || { echo "usage: $(basename "$0") options|up|down" >&2; exit 2; }; "$@" ;;
  esac
}
