// The tensors of a model's folder by the names that its weights have.
//
// Of a model of texts and images of which hone has the texts' half alone those of that, whose names say so:
//
//   model.language_model.X (transformers 5), language_model.model.X (4)   model.X
//   model.text_model.X (Idefics 3)                                        model.X
//   lm_head.X, language_model.lm_head.X, score.X                          lm_head.X, score.X
//
// Where hone has the whole, all by the names of transformers 5:
//
//   language_model.model.X, and model.X of Qwen2-VL                       model.language_model.X
//   language_model.lm_head.X                                              lm_head.X
//   vision_tower.X, vision_tower.vision_model.X                           model.vision_tower.X
//   multi_modal_projector.X, visual.X                                     model.multi_modal_projector.X, model.visual.X
//   text_model.X, vision_model.X, connector.X, image_newline              model.text_model.X, and so on
//   model.vision_embedder.X, and with it                                  model.embed_vision.X
//   model.embed_vision.X (Gemma 4 without a tower)                        model.embed_vision.multimodal_embedder.X
//
// Experts' weights that are one tensor, as transformers has them in memory and some publish them, are told one by one:
//
//   X.experts.gate_up_proj [E, 2 I, D]   X.experts.<e>.gate_proj.weight, X.experts.<e>.up_proj.weight
//   X.experts.down_proj    [E, D, I]     X.experts.<e>.down_proj.weight
//
// Those that have biases beside them stay one, as gpt-oss has them, and Gemma 4's, Mistral 4's and Qwen3-VL's, which as
// published lie the other way round: [E, D, 2 I] and [E, I, D]. What several tensors hold in few bits is told as one
// (packed/packed.h).
//
// Letters: E experts, I inner, D hidden.
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hub/packed/packed.h"
#include "hub/places.h"

namespace hone::hub {

class ModelTensors {
 public:
  // whole: whether all of a model that reads pictures is wanted, and not its texts' half; nothing: where hone has all.
  // Throws Error(checkpoint).
  explicit ModelTensors(const std::filesystem::path& folder, std::optional<bool> whole = {});
  const Places& all() const { return places_; }
  const Packed* packed(const std::string& name) const;  // what reads one of them; nullptr: its file does
  // safetensors' names of types: the narrowest that holds a tensor's numbers as they are, and the one that they are
  // saved in.
  std::string exact_in(const std::string& name) const;
  std::string saved_in(const std::string& name) const;
  const std::vector<std::string>& left_out() const { return left_out_; }  // of no texts' half
  // Whether a tensor of all experts may lie there with its last two dimensions in the other order.
  bool may_be_turned(const std::string& name) const;
  // What a model may have no weights for.
  const std::set<const TensorInfo*>& spare() const { return spare_; }

 private:
  void take_half(std::string_view prefix);
  void take_whole();
  void join_packed(const std::filesystem::path& folder);
  void split_experts();
  bool is_of_gemma4(const std::string& name) const;
  bool is_of_mistral4(const std::string& name) const;
  void split(const std::string& stem, const SafetensorsSet::Place& place, const std::vector<const char*>& weights,
             Places& into);
  SafetensorsSet::Place add_packed(std::shared_ptr<const Packed> weight);
  SafetensorsSet files_;
  Places places_;
  std::map<const TensorInfo*, std::shared_ptr<const Packed>> packed_;  // by whole()
  std::set<const TensorInfo*> spare_;
  std::deque<TensorInfo> parts_;
  std::vector<std::string> left_out_;
  bool keeps_stacks_ = false;  // the model has experts as one weight
};

// A module's or a tensor's name in the texts' half; itself, where it is in none.
std::string name_in_half(const std::string& name);

}  // namespace hone::hub
