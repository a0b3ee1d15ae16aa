// Panels of totals by cluster, vendor and model.
import type { Summary, SummaryRow } from "../../api/types";
import { linkTo } from "../../app/routes";
import { count } from "../../app/units";
import type { Resource } from "../../live/resource";
import { Panel } from "../../parts/panel";
import { Empty, ResourceView } from "../../parts/states";
import { vendorName } from "../../parts/vendor";
import { GroupTable } from "./group-table";

const SHOWN = 12;

function largest(groups: readonly SummaryRow[]): SummaryRow[] {
  return groups.toSorted((a, b) => b.devices - a.devices).slice(0, SHOWN);
}

const NONE = <Empty title="No devices">The clusters page shows which sources respond.</Empty>;

export function ByCluster({ of }: { of: Resource<Summary> }) {
  return (
    <Panel title="By cluster" flush aside={<a href={linkTo("clusters")}>All clusters</a>}>
      <ResourceView of={of}>
        {({ groups }) =>
          groups.length === 0 ? (
            NONE
          ) : (
            <GroupTable
              caption="Totals by cluster"
              heading="Cluster"
              rows={largest(groups).map((group) => ({
                key: group.cluster ?? "",
                name: group.cluster ?? "not known",
                href: linkTo("cluster", { cluster: group.cluster ?? "" }),
                sums: group,
              }))}
            />
          )
        }
      </ResourceView>
    </Panel>
  );
}

export function ByVendor({ of }: { of: Resource<Summary> }) {
  return (
    <Panel title="By vendor" flush>
      <ResourceView of={of}>
        {({ groups }) =>
          groups.length === 0 ? (
            NONE
          ) : (
            <GroupTable
              caption="Totals by vendor"
              heading="Vendor"
              rows={largest(groups).map((group) => ({
                key: group.vendor ?? "",
                name: vendorName(group.vendor ?? "not known"),
                href: linkTo("devices", {}, { vendor: group.vendor ?? "" }),
                sums: group,
              }))}
            />
          )
        }
      </ResourceView>
    </Panel>
  );
}

export function ByModel({ of, within = {} }: { of: Resource<Summary>; within?: Record<string, string> }) {
  const total = of.data?.groups_total ?? 0;
  return (
    <Panel title="By model" flush aside={total > SHOWN ? `${SHOWN} of ${count(total)}, the largest` : null}>
      <ResourceView of={of}>
        {({ groups }) =>
          groups.length === 0 ? (
            NONE
          ) : (
            <GroupTable
              caption="Totals by vendor and model"
              heading="Model"
              rows={largest(groups).map((group) => ({
                key: `${group.vendor} ${group.model}`,
                name: group.model ?? "not known",
                detail: vendorBeside(group),
                href: linkTo("devices", {}, { ...within, ...filterFor(group) }),
                sums: group,
              }))}
            />
          )
        }
      </ResourceView>
    </Panel>
  );
}

function filterFor({ vendor, model }: SummaryRow): Record<string, string> {
  return model === null ? { vendor: vendor ?? "", absent: "model" } : { model };
}

// "NVIDIA H100" contains it already.
function vendorBeside({ vendor, model }: SummaryRow): string | undefined {
  const name = vendorName(vendor ?? "");
  return model?.toLowerCase().startsWith(name.toLowerCase()) ? undefined : name;
}
