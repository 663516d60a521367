/* heap.h - a priority queue of small integers: the smallest key first, ties by the smaller value. For the planner's own use. */
#ifndef PLANNER_HEAP_H
#define PLANNER_HEAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct mp_heap_item {
    int64_t key;
    int value;
} mp_heap_item;

/* Over room that the caller owns, as large as the number of items that can be in it at once. */
typedef struct mp_heap {
    mp_heap_item *items;
    size_t n;
} mp_heap;

void mp_heap_push(mp_heap *heap, int64_t key, int value); /* O(log n) */
int mp_heap_pop(mp_heap *heap);                           /* the value of the first item; the heap is not empty. O(log n) */

#endif
