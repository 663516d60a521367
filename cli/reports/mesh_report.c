/* mesh_report.c - prints the meshes that `memplan parallel` found, their pipeline stages, and the reasons against other
 * meshes. */
#include "cli/reports/mesh.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"

enum { MESH_COLUMNS = 28 };
/* if a stage of a mesh fills more than this fraction of the memory, the mesh is called tight */
static const double tight_share = 0.97;
/* the report names a mesh that leaves more memory free than the fastest one only if each of its stages fills at most this
 * fraction of the memory */
static const double loose_share = 0.95;
/* the mesh that leaves more memory free may take longer than the fastest mesh by at most this fraction of a step's seconds */
static const double worth = 0.05;

const char *mesh_choice_name(const mp_mesh_choice *c)
{
    if (c->schedule == MP_SCHEDULE_1F1B) return mp_text("%s", mp_mesh_write(&c->mesh).text);
    if (c->n_chunks > 1) return mp_text("%s interleaved %lld", mp_mesh_write(&c->mesh).text, (long long)c->n_chunks);
    return mp_text("%s %s", mp_mesh_write(&c->mesh).text, mp_schedule_name(c->schedule));
}

const char *mesh_seconds_text(const mp_mesh_choice *c)
{
    return mp_text("%s%s", c->judge == MP_JUDGE_BLOCKS ? "~" : "", seconds_text(c->seconds));
}

/* Prints the table row of a choice. A long name is printed on a line of its own. */
static void print_choice(const mp_mesh_choice *c)
{
    const char *name = mesh_choice_name(c);
    const bool is_long = strlen(name) > MESH_COLUMNS;
    if (is_long) screen_row("  %s", name);
    screen_row("  %-*s %3lld x %-4lld %8s %10s %8s %8s", MESH_COLUMNS, is_long ? "" : name, (long long)c->micro_batch,
               (long long)c->n_micro_batches, mesh_seconds_text(c), mp_bytes_text(c->peak_bytes),
               seconds_text(c->bubble_seconds), seconds_text(c->exposed_seconds));
}

/* Returns the seconds per step that a stage spends on recomputation, for the stage that spends the most. */
static double recomputing(const mp_mesh_choice *c)
{
    double most = 0;
    for (size_t k = 0; k < c->n_stages; k++)
        if (c->stages[k].extra_seconds > most) most = c->stages[k].extra_seconds;
    return most * (double)c->n_micro_batches;
}

/* Prints the main reason why the mesh `second` is slower than the mesh `first`. */
static void print_runner_up(const mp_mesh_choice *first, const mp_mesh_choice *second)
{
    enum { KINDS = 4 };
    static const char *const what[KINDS] = {"recomputes", "waits for other stages", "waits for the network", "computes"};
    const double of_first[] = {recomputing(first), first->bubble_seconds, first->exposed_seconds},
                 of_second[] = {recomputing(second), second->bubble_seconds, second->exposed_seconds};
    const double longer = fabs(second->seconds - first->seconds);
    const bool is_faster = second->seconds < first->seconds;
    double a = first->seconds, b = second->seconds;
    char reasons[256] = "";
    for (int k = 0; k < KINDS; k++) {
        const double x = k < KINDS - 1 ? of_first[k] : a, y = k < KINDS - 1 ? of_second[k] : b;
        a -= x;
        b -= y;
        const size_t used = strlen(reasons);
        const double more = y > x ? y - x : x - y;
        if (more > longer / 10)
            snprintf(reasons + used, sizeof reasons - used, "%s %s %s %s", used ? "," : ":", what[k], seconds_text(more),
                     y > x ? "more" : "less");
    }
    if (*reasons)
        screen_text(2, "\nThe second takes %s %s%s.%s", seconds_text(longer), is_faster ? "less" : "longer", reasons,
                    is_faster ? " The first is simpler." : "");
}

/* Prints the source of the times and peaks of the best meshes. */
static void print_judges(const mp_meshes *found)
{
    size_t n[MP_N_MESH_JUDGES] = {0};
    for (size_t k = 0; k < found->n_best; k++) n[found->choices[k].judge]++;
    if (n[MP_JUDGE_KEEP_ALL]) screen_text(2, "Time and peak are those of the ranks' graphs, as in estimate.");
    if (n[MP_JUDGE_BLOCKS])
        screen_text(2, "~: approximate, added up over blocks of the network. plan --mesh finds the time and peak of a plan.");
}

void mesh_print_best(const mp_meshes *found)
{
    screen_row("  %-*s %-10s %8s %10s %8s %8s", MESH_COLUMNS, "mesh", "micro-b.", "time", "peak", "bubble", "network");
    for (size_t k = 0; k < found->n_best; k++) print_choice(&found->choices[k]);
    print_judges(found);
    if (found->n_best > 1) print_runner_up(&found->choices[0], &found->choices[1]);
}

/* Prints the bytes that each stage keeps in host memory, and the bytes that it copies. */
static void print_host(const mp_mesh_choice *c)
{
    screen_row("  %-5s %10s %10s %21s %10s", "stage", "on host", "state", "of a micro-batch", "copies");
    for (size_t k = 0; k < c->n_stages; k++) {
        const mp_stage *s = &c->stages[k];
        screen_row("  %-5zu %10s %10s %21s %10s", k, mp_bytes_text(s->host_bytes), mp_bytes_text(s->moved_state_bytes),
                   mp_bytes_text(s->moved_bytes), seconds_text(s->copy_seconds));
    }
    screen_text(2, "copies: the time that copies add to a step; the other copies run while the device computes.");
}

void mesh_print_stages(const mp_mesh_choice *c, bool has_host)
{
    const mp_stage *full = c->stages;
    screen_row("  %-5s %6s %6s %10s %10s %10s %11s %10s", "stage", "blocks", "flight", "weights", "gradients", "optimizer",
               "activations", "peak");
    for (size_t k = 0; k < c->n_stages; k++) {
        const mp_stage *s = &c->stages[k];
        screen_row("  %-5zu %6d %6lld %10s %10s %10s %11s %10s", k, s->end - s->begin, (long long)s->in_flight,
                   mp_bytes_text(s->parameter_bytes), mp_bytes_text(s->gradient_bytes), mp_bytes_text(s->state_bytes),
                   mp_bytes_text(s->activation_bytes), mp_bytes_text(s->peak_bytes));
        if (s->peak_bytes > full->peak_bytes) full = s;
    }
    screen_text(2, "flight: micro-batches that a stage holds at once. Recomputation takes at most %s per step on a stage.",
                seconds_text(recomputing(c)));
    screen_text(2, "%s of the largest peak are activations, %s buffers; that stage sends %s in a step.",
                mp_bytes_text(full->activation_bytes), mp_bytes_text(full->buffer_bytes), mp_bytes_text(full->sent_bytes));
    if (has_host) print_host(c);
}

/* Returns the fastest simulated choice that leaves enough memory free and takes little longer than the first choice; NULL:
 * there is none. */
static const mp_mesh_choice *looser(const mp_meshes *found, int64_t memory_bytes)
{
    const mp_mesh_choice *best = NULL;
    for (size_t k = 0; k < found->n; k++) {
        const mp_mesh_choice *c = &found->choices[k];
        if (c->verdict > MP_VERDICT_SLOWER || (double)c->peak_bytes > loose_share * (double)memory_bytes) continue;
        if (c->seconds <= (1 + worth) * found->choices->seconds && (!best || c->seconds < best->seconds)) best = c;
    }
    return best;
}

const char *mesh_tight_text(const mp_meshes *found, int64_t memory_bytes)
{
    const mp_mesh_choice *c = found->choices, *other = looser(found, memory_bytes);
    const double share = (double)c->peak_bytes / (double)memory_bytes;
    if (share <= tight_share) return NULL;
    const char *start = mp_text("The fit is tight: the fullest stage holds %.1f %% of the memory, which leaves %s.",
                                100 * share, mp_bytes_text(memory_bytes - c->peak_bytes));
    if (!other)
        return mp_text("%s --memory %lldMiB asks for a margin of 5 %%.", start,
                       (long long)(loose_share * (double)memory_bytes) >> 20);
    return mp_text("%s %s with %lld x %lld leaves %s and takes %s.", start, mesh_choice_name(other),
                   (long long)other->micro_batch, (long long)other->n_micro_batches,
                   mp_bytes_text(memory_bytes - other->peak_bytes), mesh_seconds_text(other));
}

const char *mesh_reason_text(const mp_mesh_choice *c, const mp_mesh_choice *best, const char *within)
{
    switch (c->verdict) {
    case MP_VERDICT_FLOOR:
        return mp_text("needs at least %s of %s, however it recomputes", mp_bytes_text(c->floor_bytes), within);
    case MP_VERDICT_OVER_MEMORY:
        return mp_text("holds %s of %s where it recomputes block by block", mp_bytes_text(c->peak_bytes), within);
    case MP_VERDICT_BOUND:
        return mp_text("takes at least %s, and the best takes %s", seconds_text(c->bound_seconds), seconds_text(best->seconds));
    case MP_VERDICT_REFUSED:
        return mp_text("takes %s, but the graph of a rank cannot be built", mesh_seconds_text(c));
    default:
        return mp_text("takes %s: waits %s for other stages, %s for the network, recomputes %s", mesh_seconds_text(c),
                       seconds_text(c->bubble_seconds), seconds_text(c->exposed_seconds), seconds_text(recomputing(c)));
    }
}

void mesh_print_set_aside(const mp_meshes *found, const char *within)
{
    static const char *const titles[] = {[MP_VERDICT_SLOWER] = "slower or more complex",
                                         [MP_VERDICT_BOUND] = "cannot be faster",
                                         [MP_VERDICT_FLOOR] = "cannot fit",
                                         [MP_VERDICT_OVER_MEMORY] = "found not to fit",
                                         [MP_VERDICT_REFUSED] = "cannot be built"};
    for (int v = MP_VERDICT_SLOWER; v < MP_N_VERDICTS; v++) {
        const mp_mesh_choice *near = NULL;
        size_t n = 0;
        for (size_t k = 0; k < found->n; k++) {
            const mp_mesh_choice *c = &found->choices[k];
            if ((int)c->verdict != v) continue;
            n++;
            if (!near || (v == MP_VERDICT_FLOOR && c->floor_bytes < near->floor_bytes) ||
                (v == MP_VERDICT_OVER_MEMORY && c->peak_bytes < near->peak_bytes))
                near = c;
        }
        /* only the best are judged by their graphs, and these times may be longer than those of the block model */
        const bool is_near = near && v == MP_VERDICT_SLOWER && near->seconds < found->choices->seconds;
        if (near)
            screen_text(4, "  %zu %s%s; the nearest, %s with %lld x %lld, %s.", n, titles[v],
                        is_near ? " by the block model" : "", mesh_choice_name(near), (long long)near->micro_batch,
                        (long long)near->n_micro_batches, mesh_reason_text(near, found->choices, within));
    }
}
