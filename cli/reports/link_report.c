/* link_report.c - prints measured links. */
#include "cli/reports/link_report.h"

#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "formats/json/json.h"

const char *link_option(const mp_link *l)
{
    return mp_text("%.4gGB/s,%.4gGB/s,%.1fus%s", l->out_bytes_per_second / 1e9, l->in_bytes_per_second / 1e9,
                   l->latency_seconds * 1e6, l->is_shared ? ",turns" : "");
}

/* How much longer than alone. */
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
