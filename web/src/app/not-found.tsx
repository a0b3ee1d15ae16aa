import { Empty } from "../parts/states";
import { View } from "../parts/view";

export function NotFound() {
  return (
    <View title="Not found">
      <Empty title="No page at this address">
        The link may be wrong or belong to another version. <a href="/">Go to the overview</a>, or press{" "}
        <kbd>/</kbd> to search.
      </Empty>
    </View>
  );
}
