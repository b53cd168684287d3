// Package agent is the source that reads the Cilium agent's API on its unix socket: what the agent is, wants and
// believes. Status, configuration, endpoints and services are polled and diffed; the load balancer's own tables
// (frontends, backends) stream each change with the reconciler's status, which says when the agent wrote the map.
//
//	/v1/healthz /v1/config /v1/endpoint /v1/service ──poll, prune, diff──▶ AgentObjects status, config, endpoint, service
//	/statedb/changes/frontends|backends ──stream──▶ AgentObjects frontend, backend; triggers; an early poll of services
//
// Objects are as the agent's own tool prints them with -o json (cilium-dbg status, config --all, endpoint list,
// service list), less what changes without meaning, with keys sorted. An agent that has no such stream (404) is
// polled only.
package agent
