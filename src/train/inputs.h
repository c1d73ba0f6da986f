// What a recipe names, loaded: tokenizer, model (without weights yet), data sets.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "hone/hub.h"
#include "hone/recipe.h"
#include "hone/run_parts.h"
#include "train/trained_beside.h"

namespace hone::training {

// What a recipe says instead of a file or a folder, where the program that trains has given it (TrainerInputs).
inline constexpr const char* kInMemory = "(in memory)";

// How far a run is that goes on.
struct Begun {
  std::int64_t step = 0;
  std::int64_t rows = -1;  // that its steps have taken of the data; -1: as many as the recipe says
};

struct Inputs {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<Model> model;  // on the meta device, until make_weights()
  std::filesystem::path source;  // where its weights are; "" = fresh ones
  bool filled = false;           // the model has its weights
  bool in_memory = false;        // the model was given
  bool other_labels = false;     // the source has a head for others than these
  // Of a run with an adapter: what it is, where its weights are ("" = fresh ones), what is put where.
  std::optional<LoraConfig> adapter;
  std::filesystem::path adapter_source;
  LoraReport adapter_report;
  std::shared_ptr<const TrainingData> train;
  std::vector<EvalSet> evals;
  std::shared_ptr<const Collator> collator;  // that was given
  Begun begun;
  BesideSources beside;       // of models that are trained beside it
  std::uint64_t process = 0;  // bytes that the program took with all of this, and without weights
  bool has_tokenizer() const { return tokenizer->vocab_size() > 0; }
};

constexpr int kStepsReadAhead = 2;

// The options of a recipe's data sets, but for cache, vocabulary and what a model knows: its labels and pictures.
Dataset::Options dataset_options(const DataSection& data, RecordKind records);
// With what the objective wants. model: null, it is not there yet.
Dataset::Options dataset_options(const DataSection& data, const Needs& needs, const Model* model);
// checkpoint: of a run that is resumed, "" = a new run. Throws Error of any kind but not_finite and locked.
Inputs load_inputs(const Recipe& recipe, const std::filesystem::path& checkpoint, const TrainerInputs& given = {});
// The recipe with what is given in memory at its place. Throws Error(usage) for what is in both, Error(config) for what
// a run in memory cannot have, or what is missing although the recipe says that it is given.
Recipe with_inputs(Recipe recipe, const TrainerInputs& given, const World& world);
// Weights for the model, unless it has them; where ranks share it out, each its part.
void make_weights(Inputs& inputs, const Recipe& recipe, const World& world, bool resumed);
// What weights of a folder ("": fresh ones) are read in for a run of this precision: a bf16 run's in fp32, so that
// masters keep what the file has, unless they are all bf16, and masters made of them, or lie beside them.
WeightTypes types_to_read(Precision run, const std::filesystem::path& folder);
// Fills the model's weights: from `source`, or fresh ones that are a function of the seed.
void fill_weights(Inputs& inputs, const Recipe& recipe, bool resumed);

// The model on the meta device, filled, with its adapter. slices: as meta_twin() has them.
std::unique_ptr<Model> meta_model(const Inputs& inputs, WeightTypes types, int slices = 1);

// What padding is filled with: it is never computed with, but must be a token of the model.
std::int32_t pad_id_of(const Tokenizer& tokenizer, std::int64_t vocab_size);
// What ends a turn in the chat template: in the one that the recipe chooses, and in the tokenizer's own where some row
// has that token to learn; of a stream nobody knows, and it counts as well.
std::optional<std::int32_t> learnt_turn_end(const Recipe& recipe, const Inputs& inputs);
// Whether one of these tokens is a target in one of some rows, taken from all over the data.
bool learns_one_of(const Dataset& data, const std::vector<std::int32_t>& tokens);
std::shared_ptr<const Collator> make_collator(const Recipe& recipe, const Inputs& inputs);
Loader::Options loader_options(const Recipe& recipe, const Inputs& inputs);
std::string cache_folder(const Recipe& recipe);  // of tokenised data; "": it is not kept
// The whole run's, of which those that it has made may have been of other batches.
std::int64_t steps_of(const Recipe& recipe, const Inputs& inputs);
std::int64_t rows_until(std::int64_t step, const Recipe& recipe, const Inputs& inputs);  // of the data, from the begin
// Path -> content hash of the files that are trained on.
nlohmann::json file_hashes(const Recipe& recipe);

}  // namespace hone::training
