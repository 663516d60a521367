/* mesh_json.c - writes meshes, their stages and their rates as JSON. */
#include "cli/reports/mesh.h"

#include "cli/reports/needs_report.h"
#include "formats/json/json.h"

static json_t *mesh_json(const mp_mesh *m)
{
    json_t *json = json_object();
    for (int d = 0; d < MP_N_DIMS; d++) mp_json_set(&json, mp_dim_name((mp_dim)d), json_integer((json_int_t)m->size[d]));
    mp_json_set(&json, "zero", json_integer(m->zero));
    mp_json_set(&json, "data", json_integer(m->data));
    return json;
}

static json_t *stage_json(const mp_stage *s, bool has_host)
{
    json_t *json = json_pack("{s:i, s:i, s:I, s:{s:I, s:I, s:I, s:I, s:I}, s:I, s:I, s:I, s:f, s:f, s:f}", "first_block",
                             s->begin, "blocks", s->end - s->begin, "in_flight", (json_int_t)s->in_flight, "memory", "weights",
                             (json_int_t)s->parameter_bytes, "gradients", (json_int_t)s->gradient_bytes, "optimizer",
                             (json_int_t)s->state_bytes, "activations", (json_int_t)s->activation_bytes, "buffers",
                             (json_int_t)s->buffer_bytes, "peak_bytes", (json_int_t)s->peak_bytes, "recomputed_bytes",
                             (json_int_t)s->recomputed_bytes, "sent_bytes", (json_int_t)s->sent_bytes, "forward_seconds",
                             s->forward_seconds, "backward_seconds", s->backward_seconds, "extra_seconds", s->extra_seconds);
    if (s->hidden_seconds > 0) mp_json_set(&json, "hidden_seconds", json_real(s->hidden_seconds));
    if (!has_host) return json;
    mp_json_set(&json, "moved_bytes", json_integer((json_int_t)s->moved_bytes));
    mp_json_set(&json, "moved_state_bytes", json_integer((json_int_t)s->moved_state_bytes));
    mp_json_set(&json, "host_bytes", json_integer((json_int_t)s->host_bytes));
    mp_json_set(&json, "copy_seconds", json_real(s->copy_seconds));
    return json;
}

json_t *mesh_choice_json(const mp_mesh_choice *c, const mp_meshes_request *r, const mesh_rate *rate)
{
    json_t *json =
        json_pack("{s:o, s:I, s:I, s:s, s:I, s:s, s:I, s:f}", "mesh", mesh_json(&c->mesh), "micro_batch",
                  (json_int_t)c->micro_batch, "micro_batches", (json_int_t)c->n_micro_batches, "schedule",
                  mp_schedule_name(c->schedule), "chunks", (json_int_t)c->n_chunks, "reason", mp_verdict_name(c->verdict),
                  "floor_bytes", (json_int_t)c->floor_bytes, "bound_seconds", c->bound_seconds);
    const bool is_played = c->verdict <= MP_VERDICT_SLOWER;
    mp_json_set(&json, "seconds", mp_json_real_if(is_played, c->seconds));
    mp_json_set(&json, "model_seconds", mp_json_real_if(is_played, c->model_seconds));
    mp_json_set(&json, "judge", is_played ? json_string(mp_mesh_judge_name(c->judge)) : json_null());
    mp_json_set(&json, "peak_bytes", mp_json_integer_if(c->stages != NULL, c->peak_bytes));
    if (c->verdict != MP_VERDICT_BEST) return json;
    const double each = (double)r->global_batch / c->seconds,
                 share = mesh_rate_share(rate, r->devices, r->global_batch, c->seconds);
    json_t *stages = json_array();
    mp_json_set(&json, "samples_per_second", json_real(each));
    mp_json_set(&json, "tokens_per_second", mp_json_real_if(rate->tokens, each * (double)rate->tokens));
    mp_json_set(&json, "flops_share", mp_json_real_if(share > 0, share));
    mp_json_set(&json, "bubble_seconds", json_real(c->bubble_seconds));
    mp_json_set(&json, "exposed_seconds", json_real(c->exposed_seconds));
    for (size_t k = 0; k < c->n_stages; k++) mp_json_append(&stages, stage_json(&c->stages[k], r->host.link));
    mp_json_set(&json, "needs", needs_json(&c->needs));
    mp_json_set(&json, "stages", stages);
    return json;
}
