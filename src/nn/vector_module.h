// What makes of texts' vectors others: Dense and LayerNorm of the sentence-transformers package. They stand beside the
// model (Model::beside()), by the names of their folders, in the order in which they are applied.
//
// Letters: S documents, D numbers of a vector.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/layers.h"
#include "hone/model.h"

namespace hone::nn {

struct VectorModuleForm {
  bool norms = false;  // LayerNorm, and else Dense
  std::int64_t in = 0, out = 0;
  bool bias = true;
  std::string activation = "torch.nn.modules.linear.Identity";  // of Dense, by the class that the package names
  bool of_tokens = false;  // Dense reads vectors of tokens, and else those of whole texts
};

// Whether hone has an activation of this class.
bool knows_vector_activation(const std::string& name);

class VectorModule final : public SavedModule {
 public:
  explicit VectorModule(VectorModuleForm form);
  Tensor operator()(const Tensor& x_SD, const Pass& pass) const;
  const VectorModuleForm& form() const { return form_; }

  config::Node hf_config() const override;
  const VectorModule* as_vector_module() const override { return this; }

 private:
  const VectorModuleForm form_;
  Linear* linear_ = nullptr;
  LayerNorm* norm_ = nullptr;
};

// Those beside a model.
struct NamedVectorModule {
  std::string name;
  const VectorModule* module = nullptr;
};
std::vector<NamedVectorModule> vector_modules(const Model& model);

}  // namespace hone::nn
