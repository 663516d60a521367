/* workload_offload.c - reads --offload and --link: the tier that tensors are copied to, its link and its size. Adds the
 * copies to the graph. */
#include "executor/workload/workload_offload.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "executor/workload/workload.h"
#include "formats/base/file.h"
#include "formats/base/text.h"
#include "memplan/training.h"
#include "memplan/workloads/own_device.h"

/* The tier to which one --offload option copies. */
typedef struct destination {
    bool is_host;
    mp_link link;  /* the link between the device and the host, or between the host and the disk */
    double rate;   /* the rate that --link states, in bytes/s; 0: --link names a known link */
    int64_t bytes; /* size limit of the tier in bytes; 0: no limit */
} destination;

/* Finds the link for the k-th --offload: the k-th --link, or if there is none the usual link of the device. */
static mp_status find_link(const mp_workload_options *o, size_t k, const char *usual, const mp_own_device *device,
                           destination *out, mp_error *err)
{
    const char *text = k < o->link.n ? o->link.items[k] : NULL;
    const mp_link *row = usual ? mp_link_find(usual) : NULL;
    if (row) out->link = *row;
    MP_ENSURE(row || text, err, MP_INVALID, "--offload: no copy rate is known for %s; state it with --link 24GB/s",
              device->profile.name);
    MP_ENSURE(!text || mp_link_parse(text, row, &out->link), err, MP_INVALID,
              "--link: '%s' is unknown; use a link of 'memplan devices', a rate like 24GB/s, or a rate printed by 'memplan "
              "profile link'",
              text);
    out->rate = text && strchr(text, '/') && !strchr(text, ',') ? out->link.out_bytes_per_second : 0;
    return MP_OK;
}

/* Reads the k-th --offload. If it names a folder, this becomes the workload's folder. The folder must exist if the command line
 * names it, or if the command writes copies to it. A folder that only a plan names need not exist on this machine. */
static mp_status read_destination(const mp_workload_options *o, size_t k, const mp_own_device *device, char **folder,
                                  destination *out, mp_error *err)
{
    const char *text = o->offload.items[k], *colon = strrchr(text, ':'), *why = "is not a number of bytes; write it like 64GiB";
    const bool has_bytes = colon && colon[1] >= '0' && colon[1] <= '9';
    MP_OWNED char *where = mp_alloc(strlen(text) + 1, 1);
    mp_budget b = {.kind = MP_BUDGET_BYTES};
    MP_ENSURE(where, err, MP_NOMEM, "where to copy");
    memcpy(where, text, has_bytes ? (size_t)(colon - text) : strlen(text));
    MP_ENSURE(!has_bytes || (mp_budget_parse(colon + 1, &b, &why) && b.kind == MP_BUDGET_BYTES && b.bytes > 0), err, MP_INVALID,
              "--offload: '%s' in '%s' %s", has_bytes ? colon + 1 : "", text, why);
    *out = (destination){.is_host = !strcmp(where, "host"), .bytes = b.bytes};
    MP_ENSURE(out->is_host || o->may_lack_folders || mp_is_folder(where), err, MP_INVALID,
              "--offload: '%s' is neither host nor an existing folder", where);
    if (!out->is_host && !*folder) {
        *folder = where;
        where = NULL;
    }
    return find_link(o, k, out->is_host ? device->profile.link : "nvme4", device, out, err);
}

/* Limits the rate of copies to a tier and back to bytes_per_second. */
static void limit_rate(mp_workload *s, int tier, double bytes_per_second)
{
    const mp_graph *g = s->graph;
    for (size_t i = 0; i < g->n_nodes; i++) {
        for (size_t k = 0; k < g->nodes[i].n_alternatives; k++) {
            const mp_alternative *f = &g->nodes[i].alternatives[k];
            const mp_copy_way way = mp_copy_way_of(g, (int)i, (int)k);
            const int there = way == MP_COPY_IN ? f->reads[0] : way == MP_COPY_OUT ? f->writes[0] : -1;
            if (there >= 0 && g->storages[there].tier == tier) s->bytes_per_second[f->channel] = bytes_per_second;
        }
    }
}

/* Checks that neither --link nor --offload-state is given without --offload. */
static mp_status check_places(const mp_workload_options *o, mp_error *err)
{
    MP_ENSURE(o->link.n <= o->offload.n, err, MP_INVALID, "--link needs --offload; give one --link for each --offload");
    MP_ENSURE(o->offload.n || !o->offload_state, err, MP_INVALID,
              "--offload-state needs --offload, which names the memory for the optimizer's state");
    return MP_OK;
}

mp_status mp_workload_host(const mp_workload_options *o, const mp_own_device *device, bool *has_host, mp_link *link,
                           int64_t *bytes, mp_error *err)
{
    MP_OWNED char *folder = NULL; /* a folder is refused, because the caller copies to the host only */
    destination read;
    MP_CHECK(check_places(o, err));
    *has_host = o->offload.n > 0;
    if (!*has_host) return MP_OK;
    MP_CHECK(read_destination(o, 0, device, &folder, &read, err));
    MP_ENSURE(read.is_host && o->offload.n == 1, err, MP_UNSUPPORTED,
              "--offload: '%s': parallel copies to the host's memory only; give --offload host once",
              o->offload.items[read.is_host ? 1 : 0]);
    *link = read.link;
    *bytes = read.bytes;
    return MP_OK;
}

mp_status mp_workload_offload(const mp_workload_options *o, const mp_own_device *device, mp_workload *s, mp_error *err)
{
    const mp_text_list *wanted = &o->offload;
    destination read, host = {0}, disk = {0};
    bool has_host = false, has_disk = false;
    size_t n_copied;
    mp_link way;
    MP_CHECK(check_places(o, err));
    if (!wanted->n) return MP_OK;
    const mp_backend *runs = o->trains && s->program ? s->program->backend : NULL;
    const bool is_away = runs && !runs->is_host;
    for (size_t k = 0; k < wanted->n; k++) {
        MP_CHECK(read_destination(o, k, device, &s->folder, &read, err));
        MP_ENSURE(read.is_host || !is_away, err, MP_UNSUPPORTED,
                  "--offload: with --device %s train copies to the host's memory only; use --offload host", o->device);
        MP_ENSURE(!(read.is_host ? has_host : has_disk), err, MP_INVALID,
                  "--offload: '%s' is one too many; give at most the host and one folder", wanted->items[k]);
        *(read.is_host ? &host : &disk) = read;
        *(read.is_host ? &has_host : &has_disk) = true;
    }
    if (has_disk && !has_host) MP_CHECK(find_link(o, wanted->n, device->profile.link, device, &host, err));
    way = mp_link_beyond(&host.link, &disk.link);
    const mp_offload offload = {
        .host = has_host ? &host.link : NULL, .disk = has_disk ? &way : NULL, .moves_state = o->offload_state};
    MP_CHECK(mp_graph_offload(s->graph, &offload, &n_copied, err));
    MP_ENSURE(n_copied, err, MP_INVALID, "--offload: there is nothing to copy: no activation%s has %s or more",
              o->offload_state ? " and no optimizer state" : "", mp_bytes_text(MP_OFFLOAD_LEAST_BYTES));
    for (int m = 1; m < (int)s->graph->n_tiers; m++) {
        if (is_away && host.rate > 0) break; /* on a GPU, the rate of copies to the host is never limited artificially */
        const bool is_host = !strcmp(s->graph->tiers[m], "host");
        s->tier_bytes[m] = is_host ? host.bytes : disk.bytes;
        if (host.rate > 0 && (is_host || !disk.rate || host.rate < disk.rate))
            limit_rate(s, m, host.rate);
        else if (!is_host)
            limit_rate(s, m, disk.rate);
    }
    return MP_OK;
}
