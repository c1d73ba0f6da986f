// The kernels' sources one after another, for the type HONE_VALUE, and by their names; included once per type.
#include "ops/cuda/kernels/attention_backward.cu"
#include "ops/cuda/kernels/attention_slopes.cu"
#include "ops/cuda/kernels/decode.h"
//
#include "ops/cuda/kernels/decode.cu"
#include "ops/cuda/kernels/dropout.cu"
#include "ops/cuda/kernels/embedding.cu"
#include "ops/cuda/kernels/float8.cu"
#include "ops/cuda/kernels/gated.cu"
#include "ops/cuda/kernels/grouped.cu"
#include "ops/cuda/kernels/grouped_wide.cu"
#include "ops/cuda/kernels/layer_norm.cu"
#include "ops/cuda/kernels/loss.cu"
#include "ops/cuda/kernels/quantized.cu"
#include "ops/cuda/kernels/rms_norm.cu"
#include "ops/cuda/kernels/rope.cu"
#include "ops/cuda/kernels/routed.cu"
#include "ops/cuda/kernels/router.cu"
#include "ops/cuda/kernels/skinny.cu"
#include "ops/cuda/kernels/store.cu"
#include "ops/cuda/kernels/sums.cu"
namespace chained {
#include "ops/cuda/kernels/decode.h"
//
#include "ops/cuda/kernels/chain_steps.h"
//
#include "ops/cuda/kernels/chain.cu"
}  // namespace chained
namespace adam {
#include "optim/elements/adam.h"
//
#include "ops/cuda/kernels/update.cu"
}  // namespace adam
namespace lion {
#include "optim/elements/lion.h"
//
#include "ops/cuda/kernels/update.cu"
}  // namespace lion
namespace sophia {
#include "optim/elements/sophia.h"
//
#include "ops/cuda/kernels/update.cu"
}  // namespace sophia

static inline Kernels all_kernels() {
  return {
      {"attention_backward/attention_of_keys_128", callable(attention_of_keys_128)},
      {"attention_backward/attention_of_keys_64", callable(attention_of_keys_64)},
      {"chain/chain_128", callable(chained::chain_128)},
      {"chain/chain_64", callable(chained::chain_64)},
      {"attention_backward/attention_of_queries_128", callable(attention_of_queries_128)},
      {"attention_backward/attention_of_queries_64", callable(attention_of_queries_64)},
      {"attention_slopes/attention_of_slopes_128", callable(attention_of_slopes_128)},
      {"attention_slopes/attention_of_slopes_64", callable(attention_of_slopes_64)},
      {"attention_backward/describe_queries", callable(describe_queries)},
      {"rms_norm/rms_norm", callable(rms_norm)},
      {"rms_norm/rms_norm_backward", callable(rms_norm_backward)},
      {"rms_norm/rms_norm_backward_kept_1", callable(rms_norm_backward_kept_1)},
      {"rms_norm/rms_norm_backward_kept_2", callable(rms_norm_backward_kept_2)},
      {"rms_norm/rms_norm_backward_kept_4", callable(rms_norm_backward_kept_4)},
      {"rms_norm/rms_norm_backward_kept_8", callable(rms_norm_backward_kept_8)},
      {"rms_norm/rms_norm_kept_1", callable(rms_norm_kept_1)},
      {"rms_norm/rms_norm_kept_2", callable(rms_norm_kept_2)},
      {"rms_norm/rms_norm_kept_4", callable(rms_norm_kept_4)},
      {"rms_norm/rms_norm_kept_8", callable(rms_norm_kept_8)},
      {"layer_norm/layer_norm", callable(layer_norm)},
      {"layer_norm/layer_norm_backward", callable(layer_norm_backward)},
      {"gated/gated", callable(gated)},
      {"gated/gated_backward", callable(gated_backward)},
      {"gated/multiply", callable(multiply)},
      {"quantized/from_four_bits", callable(from_four_bits)},
      {"quantized/from_int8", callable(from_int8)},
      {"float8/to_float8", callable(to_float8)},
      {"float8/to_float8_turned", callable(to_float8_turned)},
      {"grouped/grouped", callable(grouped)},
      {"grouped/grouped_90", callable(grouped_90)},
      {"grouped/grouped_turned", callable(grouped_turned)},
      {"grouped/grouped_turned_90", callable(grouped_turned_90)},
      {"grouped/over_groups", callable(over_groups)},
      {"grouped/over_groups_90", callable(over_groups_90)},
      {"grouped_wide/grouped_turned_wide_90", callable(grouped_turned_wide_90)},
      {"grouped_wide/grouped_wide_90", callable(grouped_wide_90)},
      {"grouped_wide/over_groups_wide_90", callable(over_groups_wide_90)},
      {"rope/rotate", callable(rotate)},
      {"routed/add_up", callable(add_up)},
      {"routed/gated_slots_backward", callable(gated_slots_backward)},
      {"routed/sort_slots", callable(sort_slots)},
      {"routed/take_slots", callable(take_slots)},
      {"router/choose_experts", callable(choose_experts)},
      {"router/choose_experts_backward", callable(choose_experts_backward)},
      {"router/measure_spread", callable(measure_spread)},
      {"loss/loss", callable(loss)},
      {"embedding/add_to_table", callable(add_to_table)},
      {"dropout/dropout", callable(dropout)},
      {"decode/decode", callable(decode)},
      {"decode/decode_128", callable(decode_128)},
      {"decode/decode_64", callable(decode_64)},
      {"decode/join_parts", callable(join_parts)},
      {"store/store_entries", callable(store_entries)},
      {"store/store_one_each", callable(store_one_each)},
      {"skinny/products", callable(products)},
      {"skinny/products_of_row", callable(products_of_row)},
      {"skinny/gated_products", callable(gated_products)},
      {"skinny/gated_products_of_row", callable(gated_products_of_row)},
      {"sums/columns", callable(columns)},
      {"sums/join_rows", callable(join_rows)},
      {"sums/find_not_finite", callable(find_not_finite)},
      {"sums/likeliest", callable(likeliest)},
      {"sums/likeliest_parts", callable(likeliest_parts)},
      {"update/update/adam", callable(adam::update)},
      {"update/update/lion", callable(lion::update)},
      {"update/update/sophia", callable(sophia::update)},
  };
}
