// A model as one GGUF file.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "hub/gguf/family.h"
#include "hub/gguf/file_type.h"
#include "hub/gguf/full_weights.h"
#include "io/gguf.h"

namespace hone::gguf {

// A tensor of the file and what it is made of.
struct Planned {
  io::GgufTensor tensor;
  std::vector<std::string> weights;  // one behind another, along the first dimension
  Change change = nullptr;           // of each
  std::vector<float> values = {};    // what it holds, where no weight is in it
};
struct Plan {
  const Family* family = nullptr;
  Config config{nlohmann::json::object()};
  std::vector<Planned> tensors;
  std::int64_t parameters() const;
  std::string size_label() const;  // "1.5B", as names on the hub have it
};

// Error(config): llama.cpp has no such model, with a list of those that it has, or lacks something that config.json
// asks for. What it does in another way that matters little is a warning.
// refuses false: nothing is said of what llama.cpp lacks, as its converter does it.
Plan plan_file(const Model& model, bool refuses = true);
// Sets the tensors' types and the keys of the architecture.
void choose_types(Plan& plan, const FileType& type, at::ScalarType stored);
void architecture_keys(io::GgufKeys& keys, const Plan& plan);

// Writes the tensors. before_each: called before a weight is read; may be empty. Error(checkpoint): a number that its
// type cannot hold, with its weight's name. Error(not_finite): a weight is so. Holds one weight at a time.
void write_tensors(io::GgufWriter& writer, const Plan& plan, const FullWeights& weights,
                   const std::function<void()>& before_each);

}  // namespace hone::gguf
