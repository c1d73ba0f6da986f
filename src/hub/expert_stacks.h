// Experts' weights as transformers 5 and PEFT have them: one stacked weight of all experts for gate and up together,
// and one for down; and adapters on them.
//
// Letters: E experts, R rank, I inputs, O outputs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hone/model.h"
#include "hub/adapter_tensor.h"
#include "nn/lora.h"

namespace hone::hub {

// Adapters of experts, gathered for one file.
class ExpertStacks {
 public:
  // Whether the module is one of an expert's; then it is gathered.
  bool take(const std::string& module, nn::Lora& lora);
  std::vector<std::string> parameters() const;  // "mlp.experts.gate_up_proj"
  // One tensor for all A and one for all B of each stacked weight; an expert without an adapter is zero.
  void add_tensors(Model& model, std::vector<AdapterTensor>& all) const;

 private:
  struct Stack {
    std::map<std::int64_t, std::map<std::string, nn::Lora*>>
        experts;  // by number and part: gate_proj, up_proj, down_proj
  };
  std::map<std::string, std::map<bool, Stack>> stacks_;  // by "model.layers.0.mlp.experts"; true: down_proj
};

// Of a file: A [E * R, I] and B [O, R * E] in one expert's parts.
Tensor expert_a(const Tensor& a, std::int64_t experts, std::int64_t expert);  // [R,I]
Tensor expert_b(const Tensor& b, std::int64_t experts, std::int64_t expert);  // [O,R]

// "model.layers.0.mlp.experts.3.up_proj" in its parts; false: it is not of an expert.
struct ExpertName {
  std::string experts, part;  // "model.layers.0.mlp.experts", "up_proj"
  std::int64_t number = 0;
};
bool parse_expert(const std::string& module, ExpertName& name);
// How many experts a model has under such a name; 0: none.
std::int64_t count_experts(Model& model, const std::string& experts);

}  // namespace hone::hub
