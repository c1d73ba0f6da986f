// Matching names.
#include "hub/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "hone/layers.h"
#include "hub/tied_head.h"

namespace hone::hub {
namespace {

// What files may hold that a model does not use: a tied head, and buffers that old versions saved.
bool may_be_extra(const Model& model, const std::string& name) {
  const CausalLm* lm = model.causal_lm();
  return (lm && lm->head().tied() && name == kHead) || name.ends_with(".rotary_emb.inv_freq") ||
         model.is_no_weight(name);
}

constexpr const char* kSameModel = "config.json and the weights must be of the same model";

// What to say of names that do not fit: most often the folder is of a model with another head.
std::string hint_of_names(const Model& model, const std::filesystem::path& folder) {
  const auto architecture = [](const config::Node& node) {
    const config::Node* list = node.find("architectures");
    return list && list->items().size() == 1 ? list->items()[0].text() : std::string();
  };
  const std::string file = (folder / "config.json").string(), own = architecture(model.hf_config());
  const std::string theirs = std::filesystem::exists(file) ? architecture(config::read_file(file)) : "";
  if (theirs.empty() || theirs == own) return kSameModel;
  const auto family = [](const std::string& name) { return name.substr(0, name.find("For")); };
  return fmt::format("its config.json says that it is of a {}{}; it is read as a {}", escape_for_terminal(theirs, 60),
                     family(theirs) == family(own) ? "" : ", which hone has not", own);
}

Error names_error(const std::vector<std::string>& missing, const std::vector<std::string>& extra,
                  const std::filesystem::path& folder) {
  std::string text = folder.string() + ":";
  if (!missing.empty())
    text += fmt::format(" {} missing: {}",
                        missing.size() == 1 ? "a tensor is" : fmt::format("{} tensors are", missing.size()),
                        list_names(missing));
  if (!extra.empty())
    text +=
        fmt::format("{} {} not the model's: {}", missing.empty() ? "" : ";",
                    extra.size() == 1 ? "a tensor is" : fmt::format("{} tensors are", extra.size()), list_names(extra));
  return Error(ErrorKind::checkpoint, text);
}

}  // namespace

TensorNames::TensorNames(Model& model, const Places& places, const std::optional<FreshWeights>& fresh,
                         const std::set<const TensorInfo*>& spare)
    : model_(model), places_(places), prefix_(model.base_prefix()) {
  std::vector<std::string> own;
  model.each_weight([&](const std::string& name, Weight&) { own.push_back(name); });
  file_has_prefix_ = std::any_of(places.begin(), places.end(), [&](const auto& p) { return has_prefix(p.first); });
  model_has_prefix_ = std::any_of(own.begin(), own.end(), [&](const auto& name) { return has_prefix(name); });
  for (const std::string& name : own) match(name, fresh);
  find_extra(fresh && fresh->any, spare);
}

const Places::value_type* TensorNames::of(const std::string& weight) const {
  const auto found = matched_.find(weight);
  return found == matched_.end() ? nullptr : &*places_.find(found->second);
}

// The names that the folder may have for a weight, as old versions called norms' weights gamma and beta.
std::vector<std::string> TensorNames::names_of(std::string weight) const {
  if (model_has_prefix_ && !file_has_prefix_ && weight.starts_with(prefix_)) weight.erase(0, prefix_.size());
  if (!model_has_prefix_ && file_has_prefix_) weight = prefix_ + weight;
  std::vector<std::string> names{weight};
  for (const auto& [now, old] : {std::pair{".weight", ".gamma"}, {".bias", ".beta"}})
    if (weight.ends_with(std::string("LayerNorm") + now))
      names.push_back(weight.substr(0, weight.size() - std::string_view(now).size()) + old);
  if (const MaskedLm* lm = model_.masked_lm(); lm && weight == lm->mask_head_names().bias) {
    const std::string again = lm->mask_head_names().decoder + ".bias";  // which transformers ties
    if (again != weight) names.push_back(again);
  }
  return names;
}

void TensorNames::match(const std::string& weight, const std::optional<FreshWeights>& wanted) {
  const Classifier* classifier = model_.classifier();
  const bool other = wanted && wanted->other_labels && classifier && weight.starts_with(classifier->weights_prefix());
  for (const std::string& name : names_of(weight))
    if (!other && places_.contains(name)) {
      matched_[weight] = name;
      used_.insert(name);
      return;
    }
  (wanted && (wanted->any || model_.may_be_fresh(weight)) ? fresh : missing).push_back(weight);
}

// Where body and heads can be told apart, what belongs to another head is no error.
void TensorNames::find_extra(bool any, const std::set<const TensorInfo*>& spare) {
  for (const auto& [name, place] : places_) {
    if (used_.contains(name) || may_be_extra(model_, name) || spare.contains(place.tensor)) continue;
    const bool of_a_head = any || (file_has_prefix_ && !name.starts_with(prefix_)) || model_.may_be_fresh(name);
    (of_a_head ? unused : extra).push_back(name);
  }
}

void check_names(const TensorNames& names, const Model& model, const std::filesystem::path& folder) {
  if (names.missing.empty() && names.extra.empty()) return;
  throw names_error(names.missing, names.extra, folder).hint(hint_of_names(model, folder));
}

void check_names(const Module& module, const Places& places, const std::filesystem::path& folder) {
  std::vector<std::string> missing, extra;
  std::set<std::string> own;
  module.each_weight([&](const std::string& name, const Weight&) {
    own.insert(name);
    if (!places.contains(name)) missing.push_back(name);
  });
  for (const auto& [name, place] : places)
    if (!own.contains(name)) extra.push_back(name);
  if (!missing.empty() || !extra.empty()) throw names_error(missing, extra, folder).hint(kSameModel);
}

}  // namespace hone::hub
