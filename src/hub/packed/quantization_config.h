// What config.json says of a folder's weights in few bits.
//
//   quant_method       what is read                                                   bits
//   fp8                weight_block_size [rows, columns], or null: a scale a weight    8 (floating point)
//   compressed-tensors format float-, int-, naive- and mxfp8-quantized                8
//                      pack-quantized                                                  4, 8
//   gptq               checkpoint_format gptq, gptq_v2                                 4, 8
//   awq                version gemm                                                    4
//
// bitsandbytes (quantized_files.h) and mxfp4 (mxfp4.h) need nothing of it: their tensors say all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hub/packed/target_pattern.h"

namespace hone::hub {

// How modules' weights are held.
struct CodeScheme {
  std::vector<std::string> targets = {};  // names of modules, or classes; of one scheme alone: all
  std::vector<TargetPattern> expressions = {};
  std::int64_t bits = 8;
  bool floating = false;               // codes are numbers with a point
  bool in_words = false;               // codes lie in words of 32 bits
  bool symmetric = true;               // zero is zero
  bool power_scales = false;           // scales may be powers of two in eight bits
  std::int64_t rows = 0, columns = 0;  // that have one scale; 0: all
};

struct PackedConfig {
  enum class Method { none, fp8, compressed_tensors, gptq, awq };
  Method method = Method::none;
  std::vector<CodeScheme> schemes = {};
  bool zeros_less_one = false;    // GPTQ's first format
  std::string saved_in = "BF16";  // what models of it are in, in full
};

// Of "quantization_config". What hone does not read are problems.
PackedConfig read_quantization(const config::Node& value, Problems& problems);
// Of a folder's config.json; of a folder without one, no method. None: it says nothing. Throws Error(config).
std::optional<PackedConfig> folder_quantization(const std::filesystem::path& folder);

}  // namespace hone::hub
