/* network.c - access to the rows of networks.def, and the time of collectives by the formulas in memplan/ranks/network.h. */
#include "memplan/ranks/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/names.h"

MP_NAMED(collective, "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "send")
MP_NAMED(algorithm, "auto", "ring", "tree", "two-levels")

#define INSIDE(name, title, devices, rate, latency) {name, title, devices, (rate)*1e9, (latency)*1e-6},
#define ACROSS(name, title, rate, latency) {name, title, 0, (rate)*1e9, (latency)*1e-6},
#define USUAL(device, network)
static const mp_fabric fabrics[] = {
#include "estimator/network/networks.def"
};
#undef INSIDE
#undef ACROSS
#undef USUAL

#define INSIDE(...)
#define ACROSS(...)
#define USUAL(device, network) {device, network},
static const char *const usual[][2] = {
#include "estimator/network/networks.def"
};
#undef INSIDE
#undef ACROSS
#undef USUAL

size_t mp_fabric_count(void)
{
    return sizeof fabrics / sizeof fabrics[0];
}

const mp_fabric *mp_fabric_row(size_t k)
{
    return k < mp_fabric_count() ? &fabrics[k] : NULL;
}

const mp_fabric *mp_fabric_find(const char *name)
{
    for (size_t k = 0; k < mp_fabric_count(); k++)
        if (mp_names_are_alike(fabrics[k].name, name)) return &fabrics[k];
    return NULL;
}

const char *mp_network_of_device(const char *device)
{
    enum { NAME_MAX = 32 };
    char name[NAME_MAX]; /* the name of a device ends at the comma of "a100,memory=40GiB" */
    snprintf(name, sizeof name, "%.*s", (int)strcspn(device, ","), device);
    for (size_t k = 0; k < sizeof usual / sizeof usual[0]; k++)
        if (mp_names_are_alike(usual[k][0], name)) return usual[k][1];
    return "pcie+eth100";
}

mp_status mp_network_read(const char *text, mp_interconnect *out, mp_error *err)
{
    enum { NAME_MAX = 32 };
    static const char stated[] = ",slowdown=";
    const char *plus = strchr(text, '+'), *parts[] = {text, plus ? plus + 1 : NULL}, *slowdown = strstr(text, stated);
    mp_interconnect found = {0};
    if (slowdown) {
        char *end;
        found.slowdown = strtod(slowdown + sizeof stated - 1, &end);
        MP_ENSURE(end > slowdown + sizeof stated - 1 && !*end && found.slowdown >= 0 && found.slowdown <= 10, err, MP_INVALID,
                  "'%s' of the network '%s' is invalid; the slowdown must be from 0 to 10", slowdown + 1, text);
    }
    for (int k = 0; k < 2 && parts[k]; k++) {
        char name[NAME_MAX];
        const char *end = !k && plus ? plus : slowdown ? slowdown : parts[k] + strlen(parts[k]);
        const size_t n = (size_t)(end - parts[k]);
        snprintf(name, sizeof name, "%.*s", (int)(n < NAME_MAX ? n : NAME_MAX - 1), parts[k]);
        const mp_fabric *row = mp_fabric_find(name);
        MP_ENSURE(row, err, MP_INVALID, "there is no network '%s'; 'memplan devices' lists the networks", name);
        mp_fabric *level = row->devices ? &found.inside : &found.across;
        MP_ENSURE(!level->name, err, MP_INVALID, "'%s' names two networks %s; name one within nodes and one between nodes",
                  text, row->devices ? "within nodes" : "between nodes");
        *level = *row;
    }
    if (!found.inside.name) { /* without a level within nodes, every device is a node of its own */
        found.inside = found.across;
        found.inside.devices = 1;
    }
    if (!found.across.name) found.across = found.inside;
    *out = found;
    return MP_OK;
}

/* How the ranks of a group are distributed over nodes. */
typedef struct spread {
    double local, nodes; /* `local`: number of ranks of the group in each node; `nodes`: number of nodes */
} spread;

static spread spread_of(const mp_interconnect *network, mp_rank_group group)
{
    const int64_t room = network->inside.devices / group.stride, local = room < 1 ? 1 : room < group.n ? room : group.n;
    return (spread){(double)local, ceil((double)group.n / (double)local)};
}

/* Returns the rate in bytes/s of a flat ring or tree. Each rank of the group has its own link between nodes. */
static double flat_rate(const mp_interconnect *network, spread at)
{
    const double inside = network->inside.bytes_per_second, across = network->across.bytes_per_second * at.local;
    return at.nodes <= 1 ? inside : at.local <= 1 || across < inside ? across : inside;
}

/* Returns the seconds of one pass around a ring of ranks. A ring all-reduce consists of two passes. */
static double pass(double n, double latency, double rate, double bytes)
{
    return n <= 1 ? 0 : (n - 1) * latency + (n - 1) / n * bytes / rate;
}

static double passes(const mp_interconnect *network, spread at, double n, double bytes)
{
    return pass(n, at.nodes > 1 ? network->across.latency_seconds : network->inside.latency_seconds, flat_rate(network, at),
                bytes);
}

static double two_levels(const mp_interconnect *network, spread at, double bytes)
{
    return pass(at.local, network->inside.latency_seconds, network->inside.bytes_per_second, bytes) +
           pass(at.nodes, network->across.latency_seconds, network->across.bytes_per_second, bytes / at.local);
}

double mp_collective_seconds(const mp_interconnect *network, mp_collective collective, mp_algorithm algorithm,
                             mp_rank_group group, int64_t bytes)
{
    const spread at = spread_of(network, group);
    const double n = (double)group.n, size = (double)bytes;
    const mp_fabric *far = at.nodes > 1 ? &network->across : &network->inside;
    const double rate = flat_rate(network, at), latency = far->latency_seconds;
    if (group.n <= 1) return 0;
    if (collective == MP_SEND)
        return latency + size / (at.local > 1 ? network->inside.bytes_per_second : far->bytes_per_second);
    if (collective == MP_BROADCAST) return (n - 1) * latency + size / rate;
    if (collective == MP_ALL_TO_ALL) {
        /* in an all-to-all each rank sends 1/n of its data to every other rank: over its own link to ranks on other nodes, and
         * over the network within its node */
        const double leaves = (n - at.local) / n * size / far->bytes_per_second,
                     stays = (at.local - 1) / n * size / network->inside.bytes_per_second;
        return (n - 1) * latency + (leaves > stays ? leaves : stays);
    }
    const double times = collective == MP_ALL_REDUCE ? 2 : 1, ring = times * passes(network, at, n, size),
                 levels = times * two_levels(network, at, size), tree = 2 * ceil(log2(n)) * latency + 2 * size / rate;
    if (algorithm == MP_ALGORITHM_RING) return ring;
    if (algorithm == MP_ALGORITHM_TWO_LEVELS) return levels;
    if (algorithm == MP_ALGORITHM_TREE && collective == MP_ALL_REDUCE) return tree;
    const double least = ring < levels ? ring : levels;
    return collective == MP_ALL_REDUCE && tree < least ? tree : least;
}

int64_t mp_collective_sent_bytes(mp_collective collective, int64_t n, int64_t bytes)
{
    const double share = n > 1 ? (double)(n - 1) / (double)n : 0;
    if (n <= 1) return 0;
    if (collective == MP_SEND || collective == MP_BROADCAST) return bytes;
    return (int64_t)((collective == MP_ALL_REDUCE ? 2 : 1) * share * (double)bytes);
}
