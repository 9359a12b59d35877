// Finds events by label or channel; what does not match is faded, and the matches can be walked through.

class Search {
  constructor(lanes, data) {
    this.lanes = lanes;
    this.data = data;
    this.matches = [];
    this.at = -1;
  }

  look(text) {
    const wanted = text.trim().toLowerCase();
    this.matches = [];
    this.at = -1;
    if (!wanted) {
      this.lanes.isMatch = null;
      this.lanes.ask();
      return "";
    }
    const fits = this.data.names.map((name) => name.toLowerCase().includes(wanted));
    this.lanes.isMatch = (thread, place) => fits[thread.label[place]] || fits[thread.channel[place]];
    for (const process of this.data.processes) {
      for (const thread of process.threads) {
        for (let place = 0; place < thread.length; place++) {
          if (this.lanes.isMatch(thread, place)) this.matches.push({ thread, place });
        }
      }
    }
    this.matches.sort((a, b) => a.thread.start[a.place] - b.thread.start[b.place]);
    this.lanes.ask();
    return this.tell();
  }

  walk(by) {
    if (!this.matches.length) return this.tell();
    this.at = (this.at + by + this.matches.length) % this.matches.length;
    const found = this.matches[this.at];
    this.lanes.select(found);
    this.lanes.reveal(found.thread, found.place);
    return this.tell();
  }

  tell() {
    const count = this.matches.length.toLocaleString("en");
    if (!this.lanes.isMatch) return "";
    return this.at < 0 ? `${count} found` : `${(this.at + 1).toLocaleString("en")} of ${count}`;
  }
}
