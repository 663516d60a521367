/* copies.c - copies to the host's memory and back beside the compute of a stage: activations block by block, and the state of
 * one parameter after the other (docs/parallel.md, "With the host's memory"). */
#include "planner/parallel/copies.h"
#include "memplan/training.h"

static double later(double a, double b)
{
    return a > b ? a : b;
}

static double seconds_of(const mp_link *link, bool is_in, int64_t n, int64_t bytes)
{
    return (double)n * link->latency_seconds + (double)bytes / (is_in ? link->in_bytes_per_second : link->out_bytes_per_second);
}

double mp_player_pass(const mp_player *x, const mp_stage *stage, bool is_backward)
{
    const mp_load *load = x->request->load;
    double clock = 0, sent = 0, before = 0;           /* of compute; the ends of the last copy, and of the one before */
    for (int b = stage->begin; b < stage->end; b++) { /* backward is this from its end to its beginning */
        const mp_block_load *block = &load->blocks[b];
        const mp_load_option *o = &block->options[x->options[b]];
        const int64_t ticks = is_backward ? block->backward_ticks + o->extra_ticks : block->forward_ticks;
        const bool is_copied = x->is_away[b] && o->movable_bytes;
        if (is_copied) clock = later(clock, before);
        clock += (double)ticks * load->tick_seconds;
        if (!is_copied) continue;
        before = sent;
        sent = later(clock, sent) + seconds_of(x->request->host.link, is_backward, o->n_movable, o->movable_bytes);
    }
    return later(clock, sent);
}

int64_t mp_player_movable_state(const mp_step_request *r, const mp_parameter_load *p)
{
    const int64_t least = r->host.least_state_bytes ? r->host.least_state_bytes : MP_OFFLOAD_LEAST_BYTES;
    const int64_t bytes = mp_player_part(r, p->state_bytes, r->ranks->mesh.zero >= 1, p->is_spread ? MP_SPREAD : MP_COMMON);
    return r->host.link && r->host.takes_state && bytes >= least ? bytes : 0;
}

/* True if a stage reads a parameter; *is_first: no stage before it does. */
static bool reads(const mp_stage *stage, const mp_parameter_load *p, bool *is_first)
{
    *is_first = p->first >= stage->begin && p->first < stage->end;
    return *is_first || (p->last >= stage->begin && p->last < stage->end);
}

/* Returns the bytes of state that are to be on the device at once. */
static int64_t window_of(const mp_player *x, const mp_stage *stage, int64_t room_bytes)
{
    enum { AT_ONCE = 3 }; /* one comes, one is used, one goes */
    int64_t largest = 0;
    bool is_first;
    for (size_t k = 0; k < x->request->load->n_parameters; k++) {
        const mp_parameter_load *p = &x->request->load->parameters[k];
        const int64_t moved = mp_player_movable_state(x->request, p);
        if (reads(stage, p, &is_first) && moved > largest) largest = moved;
    }
    return AT_ONCE * largest < room_bytes ? AT_ONCE * largest : room_bytes;
}

mp_away_updates mp_player_update_away(const mp_player *x, const mp_stage *stage, int64_t room_bytes)
{
    const mp_step_request *r = x->request;
    const mp_link *link = r->host.link;
    const int64_t window = window_of(x, stage, room_bytes);
    int64_t there = 0;
    size_t n = 0, n_gone = 0;
    double came = 0, clock = 0, sent = 0;
    mp_away_updates out = {0};
    for (size_t k = 0; k < r->load->n_parameters; k++) {
        const mp_parameter_load *p = &r->load->parameters[k];
        const int share = p->is_spread ? MP_SPREAD : MP_COMMON;
        const double update =
            (double)mp_player_part(r, p->update_ticks, r->ranks->mesh.zero >= 1, share) * r->load->tick_seconds;
        const int64_t moved = mp_player_movable_state(r, p);
        bool is_first;
        if (!reads(stage, p, &is_first)) continue;
        if (!moved) {
            clock += is_first ? update : 0;
            continue;
        }
        for (; n_gone < n && there + moved > window; n_gone++) {
            came = later(came, x->gone[n_gone]);
            there -= x->brought[n_gone];
        }
        if (link->is_shared) came = later(came, sent);
        came += seconds_of(link, true, 1, moved);
        clock = later(clock, came) + update;
        sent = later(clock, sent) + seconds_of(link, false, 1, moved);
        x->gone[n] = sent;
        x->brought[n++] = moved;
        there += moved;
        out.moved_bytes += moved;
        if (there > out.largest_bytes) out.largest_bytes = there;
    }
    out.seconds = later(clock, sent);
    return out;
}
