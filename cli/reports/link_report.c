/* link_report.c - prints the measured speeds of links and networks, and writes network files. */
#include "cli/reports/link_report.h"

#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "formats/json/json.h"
#include "formats/json/network_json.h"

const char *link_option(const mp_link *l)
{
    return mp_text("%.4gGB/s,%.4gGB/s,%.1fus%s", l->out_bytes_per_second / 1e9, l->in_bytes_per_second / 1e9,
                   l->latency_seconds * 1e6, l->is_shared ? ",turns" : "");
}

/* Returns by how many per cent compute or a copy takes longer if both run at the same time. `share` is the same quantity as a
 * fraction. */
static const char *longer(double share)
{
    return mp_text("%.0f %%", 100 * (share > 1 ? share - 1 : 0));
}

void print_link(const char *where, const mp_link_speed *speed)
{
    const mp_link link = mp_link_fit(speed);
    print("%s: %.4g GB/s out, %.4g GB/s back, latency %s; the ways %s.\n", where, link.out_bytes_per_second / 1e9,
          link.in_bytes_per_second / 1e9, seconds_text(link.latency_seconds),
          link.is_shared ? "take turns" : "are used at once");
    print("%12s %10s %6s %10s %6s\n", "one copy", "out", "GB/s", "back", "GB/s");
    for (int k = 0; k < MP_LINK_SIZES; k++) {
        const mp_link_size *s = &speed->sizes[k];
        print("%12s %10s %6.2f %10s %6.2f\n", mp_bytes_text(s->bytes), seconds_text(s->out_seconds),
              (double)s->bytes / s->out_seconds / 1e9, seconds_text(s->in_seconds), (double)s->bytes / s->in_seconds / 1e9);
    }
    print("At once, computing in caches takes %s longer and copying %s; computing in memory %s and %s.\n",
          longer(speed->arithmetic.compute), longer(speed->arithmetic.copy), longer(speed->memory.compute),
          longer(speed->memory.copy));
    print("--offload %s --link %s\n", where, link_option(&link));
}

static json_t *beside_json(const mp_link_beside *b)
{
    return json_pack("{s:f, s:f}", "compute_ratio", b->compute, "copy_ratio", b->copy);
}

json_t *link_json(const char *where, const mp_link_speed *speed)
{
    const mp_link link = mp_link_fit(speed);
    json_t *sizes = json_array();
    for (int k = 0; k < MP_LINK_SIZES; k++)
        mp_json_append(&sizes, json_pack("{s:I, s:f, s:f}", "bytes", (json_int_t)speed->sizes[k].bytes, "out_seconds",
                                         speed->sizes[k].out_seconds, "in_seconds", speed->sizes[k].in_seconds));
    return json_pack("{s:o, s:s, s:f, s:f, s:f, s:b, s:o, s:f, s:o, s:o}", "where", mp_json_text(where), "option",
                     link_option(&link), "out_bytes_per_second", link.out_bytes_per_second, "in_bytes_per_second",
                     link.in_bytes_per_second, "latency_seconds", link.latency_seconds, "is_shared", (int)link.is_shared,
                     "sizes", sizes, "both_seconds", speed->both_seconds, "beside_arithmetic", beside_json(&speed->arithmetic),
                     "beside_memory", beside_json(&speed->memory));
}

/* ---- networks ---- */

static const char *rate_text(double bytes_per_second)
{
    return mp_text("%.3g GB/s", bytes_per_second / 1e9);
}

void print_network(const mp_network_speed *s, bool fast)
{
    print("%d ranks%s, sums %s: latency %s, %s.\n", s->n_ranks, s->n_here == s->n_ranks ? " on one machine" : "",
          fast ? "as the library makes them" : "in the order of the ranks", seconds_text(s->latency_seconds),
          rate_text(s->bytes_per_second));
    print("%16s", "");
    for (int k = 0; k < MP_NETWORK_SIZES; k++) print(" %10s", mp_bytes_text(mp_network_bytes(k)));
    print(" %10s %10s\n", "latency", "rate");
    for (int c = 0; c < MP_NETWORK_KINDS; c++) {
        const mp_collective_speed *one = &s->kinds[c];
        print("%16s", mp_collective_name(one->collective));
        for (int k = 0; k < MP_NETWORK_SIZES; k++) print(" %10s", seconds_text(one->seconds[k]));
        print(" %10s %10s\n", seconds_text(one->latency_seconds), rate_text(one->bytes_per_second));
    }
}

mp_status write_network(const char *path, const mp_network_speed *s, const char *by, bool fast, mp_error *err)
{
    mp_network_row rows[MP_NETWORK_KINDS * MP_NETWORK_SIZES];
    size_t n = 0;
    const mp_fabric level = {.devices = s->n_here == s->n_ranks ? s->n_ranks : 0,
                             .bytes_per_second = s->bytes_per_second,
                             .latency_seconds = s->latency_seconds};
    for (int c = 0; c < MP_NETWORK_KINDS; c++)
        for (int k = 0; k < MP_NETWORK_SIZES; k++)
            rows[n++] =
                (mp_network_row){mp_collective_name(s->kinds[c].collective), mp_network_bytes(k), s->kinds[c].seconds[k]};
    return mp_network_json_write(path, &level, mp_text("%d ranks, %s, %s sums", s->n_ranks, by, fast ? "fast" : "ordered"),
                                 rows, n, err);
}
