// A TrainState as a folder: a checkpoint without a run.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/strings.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "hone/train_state.h"
#include "hub/own_tokenizer.h"
#include "io/json.h"
#include "nn/finite.h"
#include "train/checkpoint.h"
#include "train/frame.h"
#include "train/inputs.h"
#include "train/trainable.h"

namespace hone {
namespace {

using training::Frame;

constexpr const char *kStateFolder = "state", *kConfigFile = "config.yaml";

config::Node text_node(const std::string& text) { return config::Node::scalar(text, /*quoted=*/true); }

// Weights that are trained, as expressions, where not all of them are.
std::vector<std::string> trained_names(const Model& model) {
  std::vector<std::string> trained;
  bool frozen = false;
  model.each_weight([&](const std::string& name, const Weight& weight) {
    if (weight.is_buffer()) return;
    frozen |= !weight.trainable();
    if (weight.trainable()) trained.push_back("^" + replace_all(name, ".", "\\.") + "$");
  });
  return frozen ? trained : std::vector<std::string>();
}

// What a run's config.yaml says of these things, and no more.
config::Node config_of(const Frame& frame) {
  config::Node node = config::Node::map();
  std::vector<config::Node> trained;
  for (const std::string& name : trained_names(*frame.model)) trained.push_back(text_node(name));
  if (!trained.empty()) node.at_or_add("model").at_or_add("trainable") = config::Node::list(std::move(trained));
  if (!frame.chosen.type.empty())
    node.at_or_add("optimizer") = config::Values<config::Choice<Optimizer>>::write(frame.chosen);
  config::Node& trainer = node.at_or_add("trainer");
  trainer.at_or_add("precision") = config::Values<Precision>::write(frame.precision);
  if (frame.steps > 0) trainer.at_or_add("steps") = config::Values<std::int64_t>::write(frame.steps);
  if (frame.ema.decay > 0) trainer.at_or_add("ema") = config::Values<EmaSection>::write(frame.ema);
  node.at_or_add("run").at_or_add("seed") = config::Values<std::uint64_t>::write(frame.seed);
  return node;
}

template <class T>
void read_at(const config::Node& root, const char* section, const char* name, T& value, Problems& problems) {
  const config::Node* part = root.find(section);
  const config::Node* found = part && *name ? part->find(name) : part;
  const std::string path = *name ? fmt::format("{}.{}", section, name) : section;
  if (found && !found->is_null()) config::Values<T>::read(*found, value, {problems, path});
}

// The state's part of a folder, of a run's checkpoint too.
void read_config(const Folder& state, Frame& frame, std::vector<TrainableWeights>& trainable) {
  const std::string where = (state.path() / kConfigFile).string();
  registries();
  Problems problems;
  const config::Node node = config::parse_yaml(state.read_file(kConfigFile), where, problems);
  read_at(node, "optimizer", "", frame.chosen, problems);
  read_at(node, "trainer", "precision", frame.precision, problems);
  read_at(node, "trainer", "steps", frame.steps, problems);
  read_at(node, "trainer", "ema", frame.ema, problems);
  read_at(node, "run", "seed", frame.seed, problems);
  read_at(node, "model", "trainable", trainable, problems);
  problems.raise(where, ErrorKind::checkpoint);
}

// Of a run whose recipe counts epochs or tokens.
std::int64_t steps_told(const Folder& checkpoint) {
  const io::JsonLimits limits{std::uint64_t{1} << 30, 100, ErrorKind::checkpoint};
  const nlohmann::json told = io::parse_json(checkpoint.read_file("trainer_state.json"),
                                             (checkpoint.path() / "trainer_state.json").string(), limits);
  return told.contains("max_steps") && told["max_steps"].is_number_integer() ? told["max_steps"].get<std::int64_t>()
                                                                              : 0;
}

std::filesystem::path folder_to_load(const std::string& where) {
  const ModelPlace place = find_model(where);
  if (!place.adapter.empty())
    throw Error(ErrorKind::usage, fmt::format("{}: an adapter; a state is loaded of a whole model", where))
        .hint("`hone train` goes on from it; merged by `hone export` it is a model");
  return place.folder;
}

}  // namespace

TrainState TrainState::load(const std::string& where, const LoadState& how) {
  const std::filesystem::path path = folder_to_load(where);
  const Folder folder = Env::process().open_folder(path);
  auto frame = std::make_unique<Frame>();
  std::vector<TrainableWeights> trainable;
  const bool saved = folder.exists(kStateFolder) && folder.open_folder(kStateFolder).exists(training::kStateFile);
  if (saved) {
    frame->run = training::load_state(folder);
    if (const Folder state = folder.open_folder(kStateFolder); state.exists(kConfigFile))
      read_config(state, *frame, trainable);
    if (frame->steps == 0) frame->steps = steps_told(folder);
  }
  const bool has_state = saved && training::has_optimizer(folder);
  if (how.require_optimizer && !has_state)
    throw Error(ErrorKind::checkpoint, fmt::format("{}: no optimizer's state there", path.string()))
        .hint("a folder that was saved without it is a model and its step alone");
  if (!how.optimizer) frame->chosen = {}, frame->ema = {};
  frame->precision = resolve(how.precision.value_or(frame->precision));
  const std::string file = (path / "config.json").string();
  frame->model = build_model(config::read_file(file), file);
  if (training::trained_by_step(trainable))
    throw Error(ErrorKind::config,
                path.string() + ": model.trainable: some of its weights are trained in some steps only")
        .hint("hone train goes on with it; model.path of a run of one's own starts from its weights");
  training::choose_trainable(*frame->model, trainable);
  load_weights(*frame->model, path, training::types_to_read(frame->precision, path),
               FreshWeights{frame->seed, false, !how.strict});
  frame->source = path;
  frame->tokenizer = hub::own_tokenizer(path);
  if (has_state && !frame->chosen.type.empty()) {
    frame->init();
    during("loading the optimizer's state of " + path.string(), [&] {
      using namespace training;
      begin_young(load_updater(folder, frame->updater(), {.other_weights = !how.strict}), frame->run);
    });
  }
  return TrainState(std::move(frame));
}

void TrainState::save(const std::filesystem::path& folder, const SaveState& how) const {
  Frame& frame = *frame_;
  if (frame.model->has_adapters() && !frame.adapter)
    throw Error(ErrorKind::usage, "state: save: the model has adapters that are not a run's; nothing was written");
  const training::SaveTypes types(how.dtype, frame.precision, frame.run.source_types.value_or(training::SourceTypes()));
  const std::shared_ptr<const Tokenizer> tokenizer = how.tokenizer ? how.tokenizer : frame.tokenizer;
  const bool none = !tokenizer || tokenizer->vocab_size() == 0;
  const hub::ModelFiles files = hub::model_files(*frame.model, frame.source, none ? nullptr : tokenizer.get(),
                                                 {.type = types.most(), .align_ids = true});
  const std::string config = config::to_yaml(config_of(frame));
  training::CheckpointParts parts{*frame.model, frame.ready() ? &frame.updater() : nullptr, files, config, types};
  parts.steps = frame.steps;
  parts.with_optimizer = how.optimizer;
  parts.adapter = frame.adapter;
  parts.beside = training::files_of_beside(*frame.model, none ? nullptr : tokenizer.get(), types.most());
  parts.finite = frame.ready() ? frame.updater().weights_finite() : nn::first_not_finite(*frame.model).empty();
  training::save_checkpoint(training::place_at(folder, how.replace), frame.run, parts, frame.world());
}

}  // namespace hone
