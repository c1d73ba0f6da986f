// Comparing a base model with what a checkpoint says of it.
#include "train/adapter_base.h"

#include "base/env.h"
#include "hub/hash.h"
#include "train/state.h"

namespace hone::training {

bool is_own_base(const std::filesystem::path& adapter, const std::filesystem::path& model) {
  const std::filesystem::path state = adapter / "state";
  std::error_code ignored;
  if (!std::filesystem::exists(state / kStateFile, ignored)) return true;
  const std::string text = Env::process().open_folder(state).read_file(kStateFile);
  const TrainState saved = state_from_json(text, (state / kStateFile).string());
  const auto base = saved.models.find(kBaseRole);
  return base == saved.models.end() || base->second == hub::hash_of_folder(model);
}

}  // namespace hone::training
