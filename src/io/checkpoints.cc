// Discovery reads every manifest; order and identity come from what stands in them.
#include "io/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "io/ownership.h"

namespace hone::io {
namespace {

Checkpoint look_at(const Folder& parent, const std::string& name, Verify mode) {
  Checkpoint found;
  found.name = name;
  try {
    const Folder folder = parent.open_folder(name);
    const Manifest manifest = Manifest::read(folder);
    found.step = manifest.step;
    found.finite = manifest.finite;
    found.problems = verify(folder, manifest, mode);
  } catch (const Error& error) {
    rethrow_shortage(error);  // not damaged: nobody has looked
    found.problems = {error.what()};
  }
  return found;
}

std::string told(const Checkpoint& checkpoint) {
  std::vector<std::string> some(
      checkpoint.problems.begin(),
      checkpoint.problems.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(3, checkpoint.problems.size())));
  if (checkpoint.problems.size() > 3) some.push_back(fmt::format("and {} more", checkpoint.problems.size() - 3));
  return join(some, "; ");
}

std::string listed(const std::vector<Checkpoint>& all) {
  std::string text;
  for (const Checkpoint& one : all)
    text += "\n  " + one.name + ": " + (one.whole() ? "its weights are not finite" : told(one));
  return text;
}

// "step-00001000": what step_name() gives.
bool is_step_name(std::string_view name) {
  if (!name.starts_with("step-")) return false;
  const auto step = parse_int(name.substr(5));
  return step && *step >= 0 && name == step_name(*step);
}

}  // namespace

std::string step_name(std::int64_t step) { return fmt::format("step-{:08}", step); }

Checkpoints::Checkpoints(Folder folder) : folder_(std::move(folder)) {}

std::vector<Checkpoint> Checkpoints::scan(Verify mode) const {
  std::vector<Checkpoint> all;
  for (const std::string& name : folder_.list()) {
    if (name.starts_with(".") || is_set_aside(name) || !folder_.is_folder(name)) continue;
    // A folder of somebody else's is none of our business; one with our kind of name should have been a checkpoint.
    if (name.starts_with("step-") || folder_.open_folder(name).exists(kManifestName))
      all.push_back(look_at(folder_, name, mode));
  }
  std::stable_sort(all.begin(), all.end(), [](const Checkpoint& a, const Checkpoint& b) { return a.step < b.step; });
  return all;
}

std::optional<Checkpoint> Checkpoints::newest(bool strict) const {
  std::vector<Checkpoint> all = scan(Verify::sizes);
  if (all.empty()) return std::nullopt;
  std::vector<Checkpoint> broken;
  // Unreadable manifests have step -1 and sort first, yet their folder may be the newest: they are told in any case.
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (one->whole()) one->problems = verify(open(*one), Verify::full);
    if (one->whole() && one->finite) {
      for (const Checkpoint& other : all)
        if (other.step < 0 && other.name > one->name) broken.push_back(other);
      if (strict && !broken.empty())
        throw Error(ErrorKind::checkpoint, folder_.path().string() + ": damaged checkpoints:" + listed(broken));
      for (const Checkpoint& bad : broken)
        log::warning("checkpoint {} is not used: {}; going back to step {}", (folder_.path() / bad.name).string(),
                     bad.whole() ? "its weights are not finite" : told(bad), one->step);
      return *one;
    }
    broken.push_back(*one);
  }
  throw Error(ErrorKind::checkpoint, folder_.path().string() + ": no whole checkpoint among these:" + listed(broken))
      .hint("hone train --new starts again and moves the old folder aside");
}

Checkpoint Checkpoints::at(std::int64_t step) const {
  std::vector<std::string> steps;
  for (Checkpoint& one : scan(Verify::sizes)) {
    if (one.step != step) {
      if (one.step >= 0) steps.push_back(std::to_string(one.step));
      continue;
    }
    if (one.whole()) one.problems = verify(open(one), Verify::full);
    if (!one.whole())
      throw Error(ErrorKind::checkpoint, (folder_.path() / one.name).string() + ": damaged: " + told(one));
    return one;
  }
  throw Error(ErrorKind::checkpoint, fmt::format("{}: no checkpoint of step {}; there are {}", folder_.path().string(),
                                                 step, steps.empty() ? "none" : "steps " + join(steps, ", ")));
}

Folder Checkpoints::open(const Checkpoint& checkpoint) const { return folder_.open_folder(checkpoint.name); }

std::unique_ptr<FolderCommit> Checkpoints::start_save(std::int64_t step, FolderCommit::Options options) const {
  return std::make_unique<FolderCommit>(folder_, step_name(step), std::move(options));
}

std::vector<std::int64_t> Checkpoints::retain(std::int64_t keep, const std::set<std::int64_t>& pinned) {
  if (keep < 1) return {};
  std::vector<std::int64_t> whole, deleted;
  for (const Checkpoint& one : scan(Verify::sizes))
    if (one.whole() && one.finite && one.name == step_name(one.step)) whole.push_back(one.step);  // by us, not a copy
  for (const std::int64_t step : steps_to_delete(whole, keep, pinned)) {
    const std::string name = step_name(step), why = why_not_ours(folder_, name);
    if (why.empty()) {
      remove_committed(folder_, name);
      deleted.push_back(step);
    } else if (kept_.insert(name).second) {
      log::warning("{}: stays, beyond trainer.save.keep: {}", (folder_.path() / name).string(), why);
    }
  }
  return deleted;
}

int Checkpoints::clean() const { return clean_leftovers(folder_, is_step_name); }

std::vector<std::int64_t> steps_to_delete(std::vector<std::int64_t> whole_steps, std::int64_t keep,
                                          const std::set<std::int64_t>& pinned) {
  if (keep < 1) return {};
  std::sort(whole_steps.begin(), whole_steps.end());
  const std::int64_t surplus = static_cast<std::int64_t>(whole_steps.size()) - keep;
  std::vector<std::int64_t> gone;
  for (std::int64_t i = 0; i < surplus; ++i)
    if (!pinned.contains(whole_steps[static_cast<std::size_t>(i)]))
      gone.push_back(whole_steps[static_cast<std::size_t>(i)]);
  return gone;
}

}  // namespace hone::io
