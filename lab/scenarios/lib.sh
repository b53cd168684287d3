# Shared by the scenarios. Each is a script with OPTIONS (the agent's, NAME=VALUE, one a line), up and down:
#   scenarios/NAME options | up | down
# Everything it makes is in a namespace of its own, which down removes.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
NS=sc-$(basename "$0")
OPTIONS=
k() { node kubectl -n "$NS" "$@"; }
ext() { ip netns exec $EXT_NS "$@"; }
# outside: processes of the outside client are in the same cgroups as the node's, so what they connect to would be translated there.
# They go by addresses that no Service has, which become the node's once that is over.
outside() {
  local tool from to
  while read -r tool from to; do
    ext $tool -t nat -C OUTPUT -d $from -j NETMAP --to $to 2>/dev/null || ext $tool -t nat -A OUTPUT -d $from -j NETMAP --to $to
  done <<R
iptables 192.0.2.0/24 192.168.96.0/24
iptables 10.143.0.0/16 10.43.0.0/16
ip6tables 2001:db8:96::/64 fd96::/64
R
  ip -n $EXT_NS route replace default via $NODE_IP
  ip -n $EXT_NS route replace default via fd96::10
}
# ask HOST:PORT [CURL'S OPTION...]: one request from outside the cluster, to an address of the node or of a Service.
ask() {
  local at=$1; shift
  at=${at/#192.168.96./192.0.2.} at=${at/#10.43./10.143.} at=${at/#\[fd96::/[2001:db8:96::}
  ext curl -sf -m 2 -o /dev/null "$@" "http://$at/"
}
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
  up) outside; namespace; up ;;
  down) down ;;
  *) declare -F "${1:-}" >/dev/null || { echo "usage: $(basename "$0") options|up|down" >&2; exit 2; }; "$@" ;;
  esac
}
