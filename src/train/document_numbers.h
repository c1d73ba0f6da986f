// Numbers of documents that are made once or anew for each batch: Objective::document_numbers().
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hone/objective.h"
#include "hone/recipe.h"
#include "train/evaluate.h"
#include "train/resources.h"

namespace hone::training {

// One run's. Objective and resources must outlive it.
class DocumentNumbers {
 public:
  DocumentNumbers(const Recipe& recipe, const Objective& objective, RunResources& resources, World world);

  // Of every document of the data, unless the objective makes them batch by batch; then lets the models go. What the
  // file in the folder of tokenised data has is taken from there ("": there is none), and what it lacks is put there.
  // Throws Error(config) for a stream.
  struct Data {
    std::vector<const Dataset*> sets;
    EvaluateOptions batches;
    std::string folder;
  };
  void make_first(const Data& data);

  // Whether they may be made for one pass at a time, as long as nobody looks before, so that those of a step's other
  // micro-batches take no room: they are not made first, and no other rank has to take part.
  bool by_pass() const { return !first_ && !resources_.is_shared_out(); }
  // All ranks; nullptr: this one has no batch, and others have.
  void add_to(Batch* batch) const;

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // of a document's ids and labels
  using Numbers = std::map<std::string, double>;

  static std::vector<Key> keys_of(const Batch& batch);
  std::map<std::string, Tensor> numbers_of(const Batch& batch) const;  // by the models, where they are; on their device
  void make_missing(const Data& data);
  void make(const Batch& batch, const std::vector<Key>& keys);
  void tell(const std::vector<Key>& keys, Sums& told) const;
  void hear(const std::vector<Sums>& all);
  std::filesystem::path file_in(const std::string& folder) const;
  void load(const std::filesystem::path& file);
  void save(const std::filesystem::path& file) const;

  const Recipe& recipe_;
  const Objective& objective_;
  RunResources& resources_;
  World world_;
  bool first_;
  std::map<Key, Numbers> kept_;
};

}  // namespace hone::training
