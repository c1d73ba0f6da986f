// Which tensor of a folder fills which weight.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hone/hub.h"
#include "hub/places.h"

namespace hone::hub {

// A folder of a model with a head has a prefix before the body's names that one without a head has not; either fills
// either.
class TensorNames {
 public:
  // `places` must outlive it. spare: tensors that the model may have no weights for.
  TensorNames(Model& model, const Places& places, const std::optional<FreshWeights>& fresh,
              const std::set<const TensorInfo*>& spare = {});
  bool any_read() const { return !used_.empty(); }
  std::vector<std::string> missing, extra;  // neither may be
  std::vector<std::string> fresh, unused;
  // Of a weight; nullptr: it is fresh.
  const Places::value_type* of(const std::string& weight) const;

 private:
  bool has_prefix(const std::string& name) const { return !prefix_.empty() && name.starts_with(prefix_); }
  std::vector<std::string> names_of(std::string weight) const;
  void match(const std::string& weight, const std::optional<FreshWeights>& wanted);
  void find_extra(bool any, const std::set<const TensorInfo*>& spare);

  Model& model_;
  const Places& places_;
  std::string prefix_;
  bool file_has_prefix_ = false, model_has_prefix_ = false;
  std::map<std::string, std::string> matched_;  // weight -> tensor of the folder
  std::set<std::string> used_;
};

// Throws Error(checkpoint), where some are missing or extra.
void check_names(const TensorNames& names, const Model& model, const std::filesystem::path& folder);
// The same of a module that is no model, whose weights have their own names in its folder.
void check_names(const Module& module, const Places& places, const std::filesystem::path& folder);

}  // namespace hone::hub
