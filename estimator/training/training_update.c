/* training_update.c - parameter gradients, optimizer state and update nodes.
 *
 * Each trained parameter has one update node that reads its gradient and changes parameter and state. The state of Adam and
 * AdamW is two moments, of momentum one, of plain SGD none, all in fp32; with 16-bit parameters the fp32 master copy joins it.
 */
#include "estimator/training/training_update.h"

#include <string.h>

static bool is_trained(const mp_builder *b, int tensor)
{
    return b->model->tensors[tensor].role == MP_ROLE_PARAMETER && b->has_gradient[tensor];
}

static const char *derived(const mp_builder *b, const char *format, const char *name)
{
    const char *text = mp_pool_format(b->graph->pool, "%s%s", format, name);
    return text ? text : "";
}

mp_status mp_build_parameter_gradients(mp_builder *b)
{
    for (int t = 0; t < (int)b->model->n_tensors; t++) {
        if (!is_trained(b, t)) continue;
        MP_CHECK(mp_builder_storage(b, b->model->tensors[t].name, mp_builder_bytes(b, t), MP_KIND_PARAMETER, &b->storage[t]));
        const char *name = derived(b, "gradient of ", b->model->tensors[t].name);
        MP_CHECK(mp_builder_storage(b, name, mp_builder_bytes(b, t), MP_KIND_GRADIENT, &b->gradient[t].storage));
        mp_storage *gradient = &b->graph->storages[b->gradient[t].storage];
        bool updated = b->options->optimizer != MP_OPTIMIZER_NONE, once = b->options->accumulate <= 1;
        gradient->carried = updated && once && b->options->fuse == MP_FUSE_FORWARD;
        gradient->persistent = !updated || !once;
    }
    return MP_OK;
}

/* The node that every update waits for: it reads all gradients and leaves the factor that brings their norm down to the limit.
 */
static mp_status build_clip(mp_builder *b)
{
    MP_ENSURE(b->options->fuse != MP_FUSE_BACKWARD, b->err, MP_INVALID,
              "clipping by the global norm needs every gradient before the first update, so updates cannot be fused into "
              "backward; use --fuse forward, which clips exactly, or --fuse none");
    mp_builder_task(b, MP_TASK_CLIP, -1);
    for (int t = 0; t < (int)b->model->n_tensors; t++)
        if (is_trained(b, t)) MP_CHECK(mp_builder_put(b, &b->reads, b->gradient[t].storage));
    MP_CHECK(mp_builder_storage(b, "clipping factor", (int64_t)sizeof(float), MP_KIND_SAVED, &b->bindings->clip));
    MP_CHECK(mp_builder_put(b, &b->writes, b->bindings->clip));
    b->binding.state = b->bindings->clip;
    return mp_builder_node(b, "global norm", "ClipByGlobalNorm", MP_PHASE_UPDATE, NULL, -1, 0, 0, NULL);
}

mp_status mp_build_updates(mp_builder *b)
{
    if (b->options->optimizer == MP_OPTIMIZER_NONE) return MP_OK;
    if (b->options->clip_norm > 0) MP_CHECK(build_clip(b));
    for (int t = 0; t < (int)b->model->n_tensors; t++) {
        if (!is_trained(b, t)) continue;
        const mp_tensor *parameter = &b->model->tensors[t];
        int64_t master = mp_builder_bytes(b, t) < mp_tensor_bytes(parameter) ? 1 : 0;
        const int64_t room = mp_tensor_room(parameter), kept = mp_optimizer_state_bytes(b->options->optimizer, room);
        int64_t bytes, state = -1;
        mp_builder_task(b, MP_TASK_UPDATE, -1);
        MP_ENSURE(kept >= 0 && mp_multiply(room, 4 * master, &bytes) && mp_add(bytes, kept, &bytes), b->err, MP_INVALID,
                  "'%s' is too large", parameter->name);
        MP_CHECK(mp_builder_put(b, &b->reads, b->storage[t]));
        MP_CHECK(mp_builder_put(b, &b->reads, b->gradient[t].storage));
        MP_CHECK(mp_builder_put(b, &b->writes, b->storage[t]));
        if (bytes) {
            int index;
            MP_CHECK(mp_builder_storage(b, derived(b, "optimizer state of ", parameter->name), bytes, MP_KIND_OPTIMIZER_STATE,
                                        &index));
            state = index;
        }
        MP_CHECK(mp_builder_put(b, &b->reads, (int)state));
        MP_CHECK(mp_builder_put(b, &b->reads, b->bindings->clip));
        MP_CHECK(mp_builder_put(b, &b->writes, (int)state));
        b->binding.parameter = t;
        b->binding.source = b->gradient[t].storage;
        b->binding.target = b->storage[t];
        b->binding.state = (int)state;
        MP_CHECK(mp_builder_node(b, derived(b, "update of ", parameter->name), b->optimizer_name, MP_PHASE_UPDATE, NULL, -1, 0,
                                 0, NULL));
    }
    return MP_OK;
}
