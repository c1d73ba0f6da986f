// The checkpoint that a run starts from, and its configuration.
#include "train/model_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "hone/hub.h"
#include "io/runs_within.h"
#include "train/checkpoint.h"

namespace hone::training {
namespace {

io::Checkpoint require_whole(io::Checkpoint checkpoint) {
  if (checkpoint.whole()) return checkpoint;
  throw Error(ErrorKind::checkpoint, fmt::format("{}: damaged: {}", checkpoint.name, join(checkpoint.problems, "; ")));
}

}  // namespace

io::Checkpoint best_checkpoint(const io::Checkpoints& checkpoints) {
  const std::string where = checkpoints.folder().path().string();
  const auto newest = checkpoints.newest();
  if (!newest) throw Error(ErrorKind::checkpoint, where + ": no checkpoint yet");
  const RunState state = load_state(checkpoints.open(*newest));
  const std::vector<io::Checkpoint> all = checkpoints.scan(io::Verify::sizes);
  const auto is_there = [&](const Best& best) {
    return std::any_of(all.begin(), all.end(), [&](const io::Checkpoint& one) { return one.step == best.step; });
  };
  const auto found = std::find_if(state.best.begin(), state.best.end(), is_there);
  if (found == state.best.end() && !state.best.empty())
    throw Error(ErrorKind::checkpoint, fmt::format("{}: step {}, the best by {}, is not here", where,
                                                   state.best.front().step, state.best.front().metric))
        .hint("a run that goes on from here finds the best of its own checkpoints; until then there is `latest`");
  if (state.best.empty())
    throw Error(ErrorKind::checkpoint, where + ": no evaluation has said which checkpoint is the best")
        .hint("data.eval and trainer.eval_every; without them there is `latest`");
  const Best& best = *found;
  log::info("{}: step {} is the best, by {} {:.6g}", where, best.step, best.metric, best.value);
  return require_whole(checkpoints.at(best.step));
}

std::filesystem::path model_source(const ModelSection& model) {
  if (model.load.checkpoint == "latest") return find_model_folder(model.path);
  const std::filesystem::path folder = std::filesystem::path(model.path) / "checkpoints";
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    throw io::naming_runs_within(
        Error(ErrorKind::checkpoint, fmt::format("model.load.checkpoint {}: {}: no checkpoints there; expected a run "
                                                 "folder",
                                                 model.load.checkpoint, model.path)),
        model.path);
  const io::Checkpoints checkpoints(Env::process().open_folder(folder));
  const io::Checkpoint chosen = model.load.checkpoint == "best"
                                    ? best_checkpoint(checkpoints)
                                    : require_whole(checkpoints.at(*parse_int(model.load.checkpoint)));
  return find_model_folder((folder / chosen.name).string());
}

namespace {

// Newer versions of transformers keep what is said of rotation together.
config::Node* place_of(config::Node& config, const std::string& key) {
  config::Node* together = config.find("rope_parameters");
  return key == "rope_theta" && together && together->is_map() ? together : &config;
}

bool same_value(const config::Node& a, const config::Node& b) {
  if (a.kind() != config::Node::Kind::scalar || b.kind() != a.kind()) return a.kind() == b.kind();
  if (a.text() == b.text()) return true;
  const auto one = parse_double(a.text()), other = parse_double(b.text());
  return one && other && *one == *other;
}

}  // namespace

config::Node with_changes(config::Node config, const ModelSection& model, bool say) {
  for (const auto& [key, value] : model.config) {
    config::Node& place = *place_of(config, key);
    const config::Node* before = place.find(key);
    const std::string was = before ? config::detail::inline_text(*before) : "(not set)";
    const std::string is = config::detail::inline_text(value.node);
    if (say && was != is) log::info("model.{}: {} -> {}", key, was, is);
    place.at_or_add(key) = value.node;
  }
  return config;
}

void check_changes(const ModelSection& model, const config::Node& made, const std::string& where) {
  config::Node copy = made;
  for (const auto& [key, value] : model.config) {
    const config::Node* found = place_of(copy, key)->find(key);
    if (!found || !same_value(*found, value.node))
      throw Error(ErrorKind::config, fmt::format("model.{}: {} changes nothing of the model in {}", key,
                                                 config::detail::inline_text(value.node), where))
          .hint(found ? fmt::format("it is {}", config::detail::inline_text(*found))
                      : key == "dtype" || key == "torch_dtype"
                          ? "trainer.precision says what is computed in"
                          : "its config.json has other names for what hone computes by");
  }
}

}  // namespace hone::training
