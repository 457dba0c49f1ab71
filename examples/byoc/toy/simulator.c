/* The toy accelerator in C: `cc -O2 -shared -fPIC -o libtoy.so simulator.c`. */
#include "accelerator.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, MEMORY = 1 << 22, HANDLES = 1 << 12 };

static float memory[MEMORY];
static int64_t start[HANDLES], used, cycles;
static int32_t handles;

int32_t toy_upload(const float *data, int64_t count) {
  if (handles == HANDLES || used + count > MEMORY) return -1;
  memcpy(memory + used, data, (size_t)count * sizeof(float));
  start[handles] = used;
  used += count;
  return handles++;
}

/* One pass of the array: up to 8 rows by 8 columns, k steps; a row is read at x + row * stride. */
static void multiply(float *sums, const float *x, int64_t stride, const float *w, int32_t rows, int32_t columns,
                     int32_t k) {
  for (int32_t i = 0; i < rows; ++i)
    for (int32_t j = 0; j < columns; ++j) {
      float sum = 0;
      for (int32_t step = 0; step < k; ++step) sum += x[i * stride + step] * w[(int64_t)j * k + step];
      sums[i * SIDE + j] = sum;
    }
  cycles += k;
}

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

static float finish(float sum, const float *bias, int32_t n, int32_t flags) {
  sum += bias ? bias[n] : 0;
  return flags & TOY_RELU && sum < 0 ? 0 : sum;
}

int32_t toy_dense(float *y, const float *x, int32_t w, int32_t bias, int32_t m, int32_t n, int32_t k, int32_t flags) {
  if (w < 0 || w >= handles || bias >= handles) return 1;
  const float *weights = memory + start[w], *biases = bias < 0 ? NULL : memory + start[bias];
  float sums[SIDE * SIDE];
  for (int32_t i = 0; i < m; i += SIDE)
    for (int32_t j = 0; j < n; j += SIDE) {
      int32_t rows = least(SIDE, m - i), columns = least(SIDE, n - j);
      multiply(sums, x + (int64_t)i * k, k, weights + (int64_t)j * k, rows, columns, k);
      for (int32_t a = 0; a < rows; ++a)
        for (int32_t b = 0; b < columns; ++b)
          y[(int64_t)(i + a) * n + j + b] = finish(sums[a * SIDE + b], biases, j + b, flags);
    }
  return 0;
}

/* The pixels under the kernel at one place of the result, zeros around the image, as one row. */
static void gather(float *row, const float *image, const struct toy_conv *s, int32_t y, int32_t x) {
  for (int32_t c = 0; c < s->channels; ++c)
    for (int32_t i = 0; i < s->kernel_height; ++i)
      for (int32_t j = 0; j < s->kernel_width; ++j) {
        int32_t r = y * s->stride_y + i - s->top, q = x * s->stride_x + j - s->left;
        int inside = r >= 0 && r < s->height && q >= 0 && q < s->width;
        *row++ = inside ? image[((int64_t)c * s->height + r) * s->width + q] : 0;
      }
}

int32_t toy_conv2d(float *y, const float *x, int32_t w, int32_t bias, const struct toy_conv *s, int32_t flags) {
  if (w < 0 || w >= handles || bias >= handles) return 1;
  const float *weights = memory + start[w], *biases = bias < 0 ? NULL : memory + start[bias];
  int32_t k = s->channels * s->kernel_height * s->kernel_width, pixels = s->out_height * s->out_width;
  float *rows = malloc(sizeof(float) * SIDE * (size_t)k), sums[SIDE * SIDE];
  if (!rows) return 12;
  for (int32_t image = 0; image < s->batch; ++image)
    for (int32_t p = 0; p < pixels; p += SIDE) {
      int32_t count = least(SIDE, pixels - p);
      const float *from = x + (int64_t)image * s->channels * s->height * s->width;
      for (int32_t a = 0; a < count; ++a)
        gather(rows + (int64_t)a * k, from, s, (p + a) / s->out_width, (p + a) % s->out_width);
      for (int32_t o = 0; o < s->outputs; o += SIDE) {
        int32_t columns = least(SIDE, s->outputs - o);
        multiply(sums, rows, k, weights + (int64_t)o * k, count, columns, k);
        for (int32_t a = 0; a < count; ++a)
          for (int32_t b = 0; b < columns; ++b)
            y[((int64_t)image * s->outputs + o + b) * pixels + p + a] = finish(sums[a * SIDE + b], biases, o + b, flags);
      }
    }
  free(rows);
  return 0;
}

int64_t toy_cycles(void) { return cycles; }
