/* network_report.c - prints what collectives take between the ranks that were started, and writes it as a network. */
#include "cli/reports/network_report.h"

#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "formats/json/network_json.h"

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
