/* train_ranks.c - joins the ranks of a training, compares them, and says what they sent. */
#include "cli/reports/train_ranks.h"

#include <signal.h>
#include <stdio.h>

#include "cli/messages/messages.h"
#include "cli/messages/screen.h"
#include "executor/ranks/communicator.h"

enum { SILENT_SECONDS = 600 }; /* as an execution has it */

mp_status train_join(options *o, ranks *r, mp_error *err)
{
    mp_mesh mesh;
    if (r->world || !o->model.mesh || mp_mesh_read(o->model.mesh, &mesh, NULL) != MP_OK || mp_mesh_devices(&mesh) == 1)
        return MP_OK;
    MP_CHECK(mp_communicator_open("mpi", &r->world, err));
    messages_as_rank(mp_communicator_rank(r->world));
    signal(SIGTERM, SIG_IGN); /* a launcher sends it to all when one has ended: first they say which */
    const long long n = mp_communicator_size(r->world), wanted = mp_mesh_devices(&mesh);
    r->compares = true;
    MP_ENSURE(n == wanted, err, MP_INVALID,
              "the mesh %s has %lld ranks, and %lld process%s started: mpirun -n %lld memplan ...", mp_mesh_write(&mesh).text,
              wanted, n, n == 1 ? " was" : "es were", wanted);
    r->compares = false;
    o->model.own_device = mp_communicator_number_here(r->world);
    return MP_OK;
}

mp_status train_agree(const options *o, const train_outcome *t, ranks *r, const mp_hyper *h, mp_error *err)
{
    const mp_plan *plan = t->subject.plan;
    const double run[] = {h->learning_rate,
                          h->momentum,
                          h->weight_decay,
                          h->nesterov,
                          h->schedule,
                          (double)h->warmup_steps,
                          (double)h->n_steps,
                          o->training.before,
                          (double)o->training.save_every,
                          o->training.save != NULL,
                          o->training.resume != NULL};
    const mp_fact facts[] = {{"version of memplan", MEMPLAN_VERSION, sizeof MEMPLAN_VERSION},
                             {"seed", &o->search.seed, sizeof o->search.seed},
                             {"training graph", t->subject.graph->hash, sizeof t->subject.graph->hash},
                             {"order of sums (--reduce)", &t->subject.program->fast_sums, sizeof(bool)},
                             {"plan", plan->steps, plan->n_steps * sizeof *plan->steps},
                             {"set of training options", run, sizeof run}};
    if (!r->world) return MP_OK;
    r->compares = true;
    MP_CHECK(mp_communicator_agree(r->world, facts, sizeof facts / sizeof *facts,
                                   o->training.timeout > 0 ? o->training.timeout : SILENT_SECONDS, err));
    r->compares = false;
    return MP_OK;
}

bool train_is_known(ranks *r, const mp_error *err)
{
    r->all_failed = r->compares && err->code == MP_INVALID;
    return r->all_failed && train_is_silent(r);
}

int train_leave(ranks *r, int status)
{
    if (r->world && status != EXIT_DONE && !r->all_failed) {
        fflush(NULL);
        r->world->end(r->world, status);
    }
    mp_communicator_close(r->world);
    return status;
}

bool train_is_silent(const ranks *r)
{
    return r->world && mp_communicator_rank(r->world) > 0;
}

static int64_t planned_bytes(const train_outcome *t)
{
    return (int64_t)t->after.n_losses * mp_program_sent_bytes(t->subject.program, t->subject.plan);
}

void print_ranks(const train_outcome *t)
{
    const mp_report *r = &t->after;
    if (r->n_ranks < 2) return;
    screen_text(2,
                "%d ranks, %s, joined by %s; sums are %s. This rank sent %s in %zu steps, planned %s, and waited %s a step for "
                "others. Parameters are the same on all ranks.",
                r->n_ranks, mp_mesh_write(&t->subject.ranks.mesh).text, r->network,
                t->subject.program->fast_sums ? "as fast as it makes them" : "in the order of the ranks",
                mp_bytes_text(r->sent_bytes), r->n_losses, mp_bytes_text(planned_bytes(t)), seconds_text(r->wait_seconds));
}

json_t *train_ranks_json(const train_outcome *t)
{
    const mp_report *r = &t->after;
    return json_pack("{s:s, s:i, s:s, s:s, s:I, s:I, s:f}", "mesh", mp_mesh_write(&t->subject.ranks.mesh).text, "ranks",
                     r->n_ranks, "network", r->network, "reduce", t->subject.program->fast_sums ? "fast" : "ordered",
                     "planned_sent_bytes", (json_int_t)planned_bytes(t), "sent_bytes", (json_int_t)r->sent_bytes,
                     "wait_seconds", r->wait_seconds);
}
