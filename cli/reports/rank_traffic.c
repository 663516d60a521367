/* rank_traffic.c - prints the bytes that a rank sends in a step. */
#include "cli/reports/rank_traffic.h"

#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "executor/workload/workload.h"

void print_rank_traffic(const mp_workload *s, const mp_rank_traffic *sent)
{
    const int64_t n = mp_mesh_devices(&s->ranks.mesh);
    const mp_split *split = &s->details->split;
    if (n <= 1) return;
    const bool is_one = sent->n_collectives == 1;
    screen_text(2, "One rank of %s: %s. In a step it sends %s in %s collective%s, which take%s %s%s.", count_text(n),
                mp_mesh_write(&s->ranks.mesh).text, mp_bytes_text(sent->sent_bytes), count_text((int64_t)sent->n_collectives),
                is_one ? "" : "s", is_one ? "s" : "", seconds_text(sent->seconds), is_one ? "" : " one after the other");
    if (s->ranks.network.slowdown > 0)
        screen_text(2,
                    "By the stated rate, computing during collectives takes %.3g %% longer. This adds up to %s per step, which "
                    "is not in its times.",
                    100 * s->ranks.network.slowdown, seconds_text(s->ranks.network.slowdown * sent->seconds));
    if (split->n_gathered)
        screen_text(2, "%s tensors are gathered for operators that are not split, first for '%s'.",
                    count_text((int64_t)split->n_gathered), split->gathered_for);
}

json_t *rank_traffic_json(const mp_workload *s, const mp_rank_traffic *sent)
{
    const int64_t n = mp_mesh_devices(&s->ranks.mesh);
    return json_pack("{s:s, s:I, s:I, s:I, s:f, s:I}", "mesh", mp_mesh_write(&s->ranks.mesh).text, "devices", (json_int_t)n,
                     "collectives", (json_int_t)sent->n_collectives, "sent_bytes", (json_int_t)sent->sent_bytes,
                     "collective_seconds", sent->seconds, "gathered_tensors", (json_int_t)s->details->split.n_gathered);
}
