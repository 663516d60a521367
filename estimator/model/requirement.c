/* requirement.c - checks the requirements that the operator registry (ops.def) states. */
#include "estimator/model/requirement.h"

#include <inttypes.h>
#include <string.h>

#include "estimator/model/shape_rule.h"

/* Returns a description of a set of element types, for messages. */
static const char *types_text(unsigned types)
{
    static const struct {
        unsigned types;
        const char *text;
    } texts[] = {{MP_TYPES_FLOATS, "floating-point numbers"}, {MP_TYPES_NUMBERS, "numbers"},
                 {MP_TYPES_WHOLE, "whole numbers"},           {MP_TYPES_BYTES, "8-bit whole numbers"},
                 {MP_TYPES_INDEX, "int32 or int64"},          {MP_TYPES_BOOL, "bool"},
                 {MP_TYPES_PLAIN, "numbers or bool"}};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
        if (texts[k].types == types) return texts[k].text;
    return "another type";
}

/* Returns the remedy that an error message gives for a boolean mask that is added to attention scores; "" for other
 * operands. PyTorch's newer exporter writes such an Add, which ONNX does not define, for attention with a boolean mask and
 * dropout from operator set 23 on. */
static const char *remedy_for_types(const mp_infer *c, const mp_tensor *a, const mp_tensor *b)
{
    const bool is_mask = (a->dtype == MP_DTYPE_BOOL && mp_dtype_is_float(b->dtype)) ||
                         (b->dtype == MP_DTYPE_BOOL && mp_dtype_is_float(a->dtype));
    if (!c->model->is_of_newer_exporter || !is_mask || c->op->op->gradient != MP_GRADIENT_ALIAS) return "";
    return "; PyTorch's exporter adds boolean masks of attention from operator set 23 on, which ONNX does not allow: "
           "export with opset_version=22";
}

/* Checks a requirement on one operand, or on two operands. */
static mp_status check_operand(mp_infer *c, const mp_requirement *r, const mp_tensor *t)
{
    const mp_tensor *other = mp_infer_in(c, r->other);
    char own[MP_SHAPE_TEXT], whole[MP_SHAPE_TEXT];
    int64_t dims[MP_RANK_MAX];
    int rank;
    switch (r->kind) {
    case MP_REQUIRES_TYPES:
        MP_FIT(!t->dtype || r->types >> t->dtype & 1, "'%s' has the type %s, but the operator needs %s", t->name,
               mp_dtype_name(t->dtype), types_text(r->types));
        break;
    case MP_REQUIRES_LIKE:
        MP_FIT(!other || !t->dtype || !other->dtype || t->dtype == other->dtype, "'%s' has the type %s, but '%s' has %s%s",
               t->name, mp_dtype_name(t->dtype), other->name, mp_dtype_name(other->dtype), remedy_for_types(c, t, other));
        break;
    case MP_REQUIRES_RANK:
        MP_FIT(t->rank >= r->least && t->rank <= r->most, "'%s' %s has %d dimensions instead of %" PRId64 " to %" PRId64,
               t->name, mp_rule_shape_text(t->dims, t->rank, own), t->rank, r->least, r->most);
        break;
    case MP_REQUIRES_NUMBER:
        MP_FIT(mp_tensor_elements(t) == 1, "'%s' %s must be a single number", t->name,
               mp_rule_shape_text(t->dims, t->rank, own));
        break;
    case MP_REQUIRES_LIST:
        MP_FIT(t->rank <= 1, "'%s' %s must be a list", t->name, mp_rule_shape_text(t->dims, t->rank, own));
        break;
    case MP_REQUIRES_PER:
        MP_FIT(!other || (other->rank > r->least && t->rank == 1 && t->dims[0] == other->dims[r->least]),
               "'%s' %s must have one element per position along dimension %" PRId64 " of '%s' %s", t->name,
               mp_rule_shape_text(t->dims, t->rank, own), r->least, other->name,
               mp_rule_shape_text(other->dims, other->rank, whole));
        break;
    case MP_REQUIRES_ONTO: {
        bool fits = !other || mp_rule_broadcast(other->dims, other->rank, t->dims, t->rank, dims, &rank);
        if (fits && other) fits = rank == other->rank && !memcmp(dims, other->dims, (size_t)rank * sizeof *dims);
        MP_FIT(fits, "'%s' %s cannot be broadcast to '%s' %s", t->name, mp_rule_shape_text(t->dims, t->rank, own), other->name,
               mp_rule_shape_text(other->dims, other->rank, whole));
        break;
    }
    case MP_REQUIRES_FILLED:
        for (int d = 0; d < t->rank; d++)
            MP_FIT(t->dims[d] > 0, "'%s' %s has no elements", t->name, mp_rule_shape_text(t->dims, t->rank, own));
        break;
    default:
        break;
    }
    return MP_OK;
}

/* Checks a requirement on an attribute. It may involve the dimensions of an operand. */
static mp_status check_attribute(mp_infer *c, const mp_requirement *r)
{
    const mp_tensor *t = mp_infer_in(c, r->operand);
    const mp_attribute *a = mp_operator_attribute(c->op, r->attribute);
    const int64_t value = mp_operator_int(c->op, r->attribute, r->least);
    const int64_t *axes;
    const char *text, *found;
    size_t n;
    int axis;
    switch (r->kind) {
    case MP_REQUIRES_AXIS:
        if (t) MP_CHECK(mp_rule_axis(c, value, t->rank, &axis));
        break;
    case MP_REQUIRES_AXES:
        axes = mp_operator_ints(c->op, r->attribute, &n);
        MP_FIT(!t || axes || t->rank > r->least, "there is no axis %" PRId64 " in %d dimensions", r->least, t->rank);
        for (size_t k = 0; t && k < n; k++) MP_CHECK(mp_rule_axis(c, axes[k], t->rank, &axis));
        break;
    case MP_REQUIRES_RANGE:
        MP_FIT(!a || (value >= r->least && value <= r->most), "%s is %" PRId64 ", but it must be in %" PRId64 " .. %" PRId64,
               r->attribute, value, r->least, r->most);
        break;
    case MP_REQUIRES_DIVIDES:
        MP_FIT(a && a->kind == MP_ATTRIBUTE_INT, "%s is not given", r->attribute);
        MP_FIT(!t || (t->rank > r->least && value >= 1 && t->dims[r->least] % value == 0),
               "%s is %" PRId64 ", but it must divide %" PRId64, r->attribute, value,
               t->rank > r->least ? t->dims[r->least] : 0);
        break;
    case MP_REQUIRES_WORD:
        text = mp_operator_text(c->op, r->attribute, "");
        n = strlen(text);
        found = r->words;
        while (n && found && !(!strncmp(found, text, n) && (found[n] == ' ' || !found[n]))) {
            found = strchr(found, ' ');
            if (found) found++;
        }
        MP_FIT(!n || found, "%s is '%s', but it must be one of: %s", r->attribute, text, r->words);
        break;
    default:
        break;
    }
    return MP_OK;
}

mp_status mp_requirements_check(mp_infer *c)
{
    const int version = c->op->version;
    for (const mp_requirement *r = c->op->op->requirements; r && r->kind; r++) {
        if (version < r->from || (r->before && version >= r->before)) continue;
        if (r->attribute) {
            MP_CHECK(check_attribute(c, r));
            continue;
        }
        const int first = r->operand < 0 ? 0 : r->operand, last = r->operand < 0 ? c->op->n_in - 1 : r->operand;
        for (int k = first; k <= last; k++)
            if (mp_infer_in(c, k)) MP_CHECK(check_operand(c, r, mp_infer_in(c, k)));
    }
    return MP_OK;
}
