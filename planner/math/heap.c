/* heap.c - a binary heap in an array: the children of element i are elements 2i + 1 and 2i + 2. */
#include "planner/math/heap.h"

#include <stdbool.h>

static bool before(const mp_heap_item *a, const mp_heap_item *b)
{
    return a->key != b->key ? a->key < b->key : a->value < b->value;
}

void mp_heap_push(mp_heap *heap, int64_t key, int value)
{
    const mp_heap_item item = {key, value};
    size_t i = heap->n++;
    while (i > 0 && before(&item, &heap->items[(i - 1) / 2])) {
        heap->items[i] = heap->items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap->items[i] = item;
}

int mp_heap_pop(mp_heap *heap)
{
    const int first = heap->items[0].value;
    const mp_heap_item item = heap->items[--heap->n];
    size_t i = 0;
    for (size_t child = 1; child < heap->n; child = 2 * i + 1) {
        if (child + 1 < heap->n && before(&heap->items[child + 1], &heap->items[child])) child++;
        if (!before(&heap->items[child], &item)) break;
        heap->items[i] = heap->items[child];
        i = child;
    }
    if (heap->n) heap->items[i] = item;
    return first;
}
